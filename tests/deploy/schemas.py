"""Whether rendered objects have the shape that Kubernetes asks for.

Kubernetes' own kinds by kubernetes-validate, which has the schemas of its releases, from the Python package index in a virtual
environment of the build folder; kinds of operators by crds/*.json, which know the fields that we use.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
REQUIREMENTS = ["kubernetes-validate==1.37.0"]
# The oldest release that the manifests are for, and the newest whose schemas are there.
RELEASES = ("1.30", "1.37")
INSTALL_S = 240

# Run by the Python of the environment: sets of documents on stdin, the problems of each on stdout, as JSON.
CHECK = """
import functools, json, sys
import jsonschema, kubernetes_validate
# It reads them again for each document.
kubernetes_validate.utils.schema_contents = functools.lru_cache(None)(kubernetes_validate.utils.schema_contents)
asked = json.load(sys.stdin)
def problem_of(document):
    schema = asked["schemas"].get(document["apiVersion"] + "/" + document["kind"])
    try:
        if schema is not None:
            jsonschema.Draft202012Validator(schema).validate(document)
        for release in asked["releases"] if schema is None else ():
            kubernetes_validate.validate(document, release, strict=True)
    except jsonschema.ValidationError as error:
        return f"{'.'.join(map(str, error.path))}: {error.message[:200]}"
    except kubernetes_validate.SchemaNotFoundError as error:
        return error.message
def problems_of(documents):
    found = ((document, problem_of(document)) for document in documents)
    return [document["kind"] + "/" + document["metadata"]["name"] + ": " + problem for document, problem in found if problem]
json.dump([problems_of(documents) for documents in asked["sets"]], sys.stdout)
"""


def python():
    """That has the validator; None: it cannot be had, which is said."""
    folder = os.path.join(os.environ.get("TUTTI_BINARY_DIR", tempfile.gettempdir()), "kubernetes-validate")
    path, stamp = os.path.join(folder, "bin", "python"), os.path.join(folder, "requirements")
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.read() == str(REQUIREMENTS):
                return path
    shutil.rmtree(folder, ignore_errors=True)
    for command in ([sys.executable, "-m", "venv", folder],
                    [path, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", *REQUIREMENTS]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"no schemas: {error}")
            return None
        if done.returncode != 0:
            print(f"no schemas: {(done.stderr or done.stdout).strip()[-300:]}")
            return None
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(str(REQUIREMENTS))
    return path


def own():
    """{apiVersion/kind: schema} of crds/."""
    found = {}
    for name in sorted(os.listdir(os.path.join(HERE, "crds"))):
        with open(os.path.join(HERE, "crds", name), encoding="utf-8") as file:
            schema = json.load(file)
        found[schema["$comment"]] = schema
    return found


def with_inner(documents):
    """A pod template inside of an operator's kind is one of Kubernetes' own."""
    return [*documents, *({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": f"{document['metadata']['name']}-{part}"},
                           "template": document["spec"]["leaderWorkerTemplate"][part]}
                          for document in documents if document["kind"] == "LeaderWorkerSet" for part in ("leaderTemplate", "workerTemplate"))]


def problems(interpreter, sets):
    """Of each set of documents."""
    asked = json.dumps({"sets": [with_inner(documents) for documents in sets], "schemas": own(), "releases": RELEASES})
    done = subprocess.run([interpreter, "-c", CHECK], input=asked, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)
