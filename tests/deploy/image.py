"""The stages of deploy/docker/Dockerfile, and whether they fit the packages, the manifests and each other."""
import os
import re
import sys
from dataclasses import dataclass, field

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from harness import SOURCE  # noqa: E402

DOCKERFILE = os.path.join(SOURCE, "deploy", "docker", "Dockerfile")
# What tools/image builds: {stage: image}.
IMAGES = {"cpu": "tutti", "cuda": "tutti-cuda"}
LABELS = {"title", "description", "licenses", "version", "revision", "base.name"}


@dataclass
class Stage:
    name: str
    base: str
    instructions: list = field(default_factory=list)  # (word, rest)


def stages_of(text):
    stages = []
    lines = re.sub(r"(?m)^#.*\n", "", text).replace("\\\n", "")
    for line in filter(None, map(str.strip, lines.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(name, base))
        elif stages:
            stages[-1].instructions.append((word, rest))
    return stages


def read_stages(path):
    with open(path, encoding="utf-8") as file:
        return stages_of(file.read())


def read(*parts):
    with open(os.path.join(SOURCE, *parts), encoding="utf-8") as file:
        return file.read()


def check_image(text):
    """Problems of a Dockerfile."""
    stages = {stage.name: stage for stage in stages_of(text)}
    problems = [f"there is no stage {name}" for name in IMAGES if name not in stages]
    if problems:
        return problems
    if list(stages)[-1] != "cpu":
        problems.append("the last stage, which is built where none is named, is not cpu")
    made = set(re.findall(r"_PACKAGE_NAME ([a-z-]+)\)", read("cmake", "packages.cmake")))
    for stage in stages.values():
        for word, rest in stage.instructions:
            problems += [f"{stage.name}: no package {package}" for package in re.findall(r"/([a-z-]+)_\*\.deb", rest) if package not in made]
            for source in re.findall(r"from=(\w+)", rest):
                if source not in list(stages)[:list(stages).index(stage.name)]:
                    problems.append(f"{stage.name}: there is no stage {source} before it")
            paths = rest.split()[:-1] if word == "COPY" and "--from" not in rest else []
            problems += [f"{stage.name}: there is no {path} to copy" for path in paths if not os.path.exists(os.path.join(SOURCE, path))]
    version = re.search(r"project\(tutti VERSION ([\d.]+)", read("CMakeLists.txt")).group(1)
    user = re.search(r"runAsUser: (\d+)", read("deploy", "k8s", "base", "pipeline.yaml")).group(1)
    for name in IMAGES:
        said = {}
        for word, rest in stages[name].instructions:
            said[word] = said.get(word, "") + rest + "\n"
        labels = set(re.findall(r"org\.opencontainers\.image\.([\w.]+)=", said.get("LABEL", "")))
        problems += [f"{name}: no label {label}" for label in sorted(LABELS - labels)]
        if f"VERSION={version}\n" not in said.get("ARG", ""):
            problems.append(f"{name}: the version is not {version}")
        if said.get("USER", "").strip() != f"{user}:{user}":
            problems.append(f"{name}: its user is not {user}, as in the manifests")
        if "tutti --version" not in said.get("RUN", ""):
            problems.append(f"{name}: nothing compares the build stamp")
    return problems
