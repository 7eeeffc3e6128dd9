#!/usr/bin/env python3
"""What deploy/ says, against the programs: each flag, port, path, probe and variable exists, and the parts fit each other.

    tests/deploy/deploy_test.py

Kustomizations are rendered by kubectl or kustomize, where one of them (version 4 or later of kustomize) is installed, and validated where
the Python package index can be reached; exit status 77 says that there is no renderer.
By hand:  TUTTI_BINARY_DIR=build/release /usr/bin/python3 tests/deploy/deploy_test.py
"""
import functools
import glob
import os
import re
import shutil
import subprocess
import sys
import unittest

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import schemas  # noqa: E402
from image import IMAGES, check_image  # noqa: E402
from manifests import Manifests  # noqa: E402
from pods import LOADERS  # noqa: E402
from services import check_compose, check_unit  # noqa: E402
from harness import SOURCE  # noqa: E402

DEPLOY = os.path.join(SOURCE, "deploy")
KUSTOMIZATIONS = ("base", "gateway", "ingress", "httproute", "loader", "mesh", "monitoring", "workers", "gpu", "standby", "leaderworkerset")
SKIPPED = 77


def renderer():
    """The command that renders a folder; None: there is none."""
    for command in (["kubectl", "kustomize"], ["kustomize", "build"]):
        if shutil.which(command[0]):
            said = subprocess.run([command[0], "version", *(["--client"] if command[0] == "kubectl" else [])], capture_output=True,
                                  text=True, check=False).stdout
            found = re.search(r"v(\d+)\.\d+\.\d+", said.partition("Kustomize")[2] or (said if command[0] == "kustomize" else ""))
            if found and int(found.group(1)) >= 4:
                return command
    return None


RENDERER = renderer()


@functools.cache
def rendered(name):
    done = subprocess.run([*RENDERER, os.path.join(DEPLOY, "k8s", name)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def metrics():
    """The names that the programs tell; tests/e2e/metrics_test.py holds both lists against running processes."""
    found = set()
    for path in ("docs/METRICS.md", "tests/e2e/vllm_names.py"):
        with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
            found |= set(re.findall(r"\b(?:vllm:|tutti_)\w+", file.read()))
    return found


def parse(text):
    # The one in C, where PyYAML has it.
    return list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def check(text):
    return Manifests(parse(text), metrics()).check()


def read(*parts):
    with open(os.path.join(DEPLOY, *parts), encoding="utf-8") as file:
        return file.read()


# (kustomization, what stands there, what is planted instead, words that a problem must have)
PLANTED = (
    ("base", "--cluster-secret-file", "--cluster-secret", "no flag --cluster-secret"),
    ("base", "- 0.0.0.0:9102\n        - --cluster-secret-file\n        - /secret/secret\n", "- 0.0.0.0:9102\n", "does not know the secret"),
    ("base", "- tutti-coordinator", "- tutti-koordinator", "no program"),
    ("base", "containerPort: 50051", "containerPort: 50054", "nothing listens at port 50054"),
    ("base", "path: /healthz", "path: /health", "serves no /health"),
    ("base", "name: TUTTI_ADMIN", "name: TUTTI_ADMIN_SOCKET", "no program here reads TUTTI_ADMIN_SOCKET"),
    ("base", "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 35", "not above 35"),
    ("base", "targetPort: grpc", "targetPort: rpc", "no such pod has the port rpc"),
    ("base", "serviceName: tutti-pods", "serviceName: tutti-pod", "no headless Service"),
    ("base", "mountPath: /secret", "mountPath: /secrets", "nothing is mounted there"),
    ("base", "- --timeout\n            - \"3\"", "- --timeout\n            - \"5\"", "before its command gives up"),
    ("base", "          readOnlyRootFilesystem: true\n", "", "not restricted"),
    ("base", "- status", "- state", "no command"),
    ("gateway", "tutti:50051", "tutti:50052", "no such port"),
    ("gateway", "scheme: HTTPS", "scheme: HTTP", "the port is https"),
    ("gateway", "failureThreshold: 30\n          httpGet:\n            path: /ready", "failureThreshold: 2\n          httpGet:\n            path: /ready",
     "leaves its Service"),
    ("gateway", "path: /ready", "path: /readyz", "serves no /readyz"),
    ("gateway", "kind: Deployment\n    name: tutti-gateway", "kind: Deployment\n    name: tutti-door", "no Deployment"),
    ("ingress", "            name: tutti-gateway\n            port:", "            name: tutti-door\n            port:", "no Service tutti-door"),
    ("ingress", "              name: https", "              name: http", "has no port http"),
    ("ingress", "  - host: tutti.example.com", "  - host: tutti.example.org", "has no certificate"),
    ("httproute", "port: 443\n    matches", "port: 8443\n    matches", "tutti-gateway has no port 8443"),
    ("httproute", "  hostnames:\n  - tutti.example.com", "  hostnames:\n  - tutti.example.org", "is not what tutti-world listens to"),
    ("httproute", "      request: 0s", "      request: 30s", "streams may be longer than 30s"),
    ("httproute", "  - name: tutti-world\n    sectionName: https", "  - name: tutti-world\n    sectionName: tls", "has no listener tls"),
    ("httproute", "      certificateRefs:\n      - name: tutti-world-tls\n", "      certificateRefs: []\n", "has no certificate"),
    ("httproute", "    name: tutti-gateway\n    sectionName: https", "    name: tutti\n    sectionName: https", "tutti has no port https"),
    ("loader", "name: REVISION", "name: REVISON", "its script names REVISION, which is not set"),
    ("loader", "        name: fetch\n", "        name: fetch\n        restartPolicy: Always\n", "it does not end before the others"),
    ("loader", "        - mountPath: /model\n          name: model\n        - mountPath: /hub", "        - mountPath: /hub", "nobody reads what it fetches"),
    ("loader", "          exec /hub", "          (exec /hub", "yntax error"),
    ("loader", "      name: model\n    spec:\n      accessModes", "      name: models\n    spec:\n      accessModes", "there is no volume model"),
    ("base", "    app.kubernetes.io/name: tutti\n    app.kubernetes.io/part-of: tutti\n  name: tutti-pods", "  name: tutti-pods", "no label app.kubernetes.io/name"),
    ("workers", "app.kubernetes.io/component: worker", "app.kubernetes.io/component: work", "no label app.kubernetes.io/component"),
    ("mesh", "--public-plaintext", "--plaintext", "no flag --plaintext"),
    ("mesh", "appProtocol: kubernetes.io/h2c", "appProtocol: https", "appProtocol https of a port without TLS"),
    ("base", "appProtocol: https", "appProtocol: kubernetes.io/h2c", "appProtocol kubernetes.io/h2c of a port with TLS"),
    ("monitoring", "vllm:num_requests_waiting", "vllm:num_requests_queued", "no program tells"),
    ("monitoring", "        - --metrics-alias\n        - vllm\n", "", "--metrics-alias vllm only"),
    ("workers", "tutti-coordinator-0.tutti-members:50052", "tutti-coordinator-0.tutti-members:50053", "nobody listens"),
    ("workers", "tutti-worker-1.tutti-members:50053", "tutti-worker-1.tutti-member:50053", "no Service tutti-member"),
    ("workers", "$(POD)", "$(PODNAME)", "is not set"),
    ("standby", "tutti-coordinator-1=tutti-coordinator-1", "tutti-coordinator-1=tutti-coordinators-1", "no pod is called"),
    ("gpu", "name: TUTTI_DEVICE", "name: TUTTI_GPU", "no program here reads TUTTI_GPU"),
    ("gpu", "image: tutti-cuda", "image: tutti-gpu", "no image"),
    ("leaderworkerset", "- 0.0.0.0:50052", "- 0.0.0.0:50055", "nobody listens"),
    ("leaderworkerset", "tutti-$(GROUP)", "tutti-$(GRUP)", "is not set"),
    ("workers", "name: TUTTI_COORDINATOR", "name: TUTTI_MODEL_CACHE", "there is no group here"),
)
# The same for schemas.
MISSHAPEN = (
    ("base", "podManagementPolicy", "podManagementPolcy", "podManagementPolcy"),
    ("base", "replicas: 1", "replicas: one", "one"),
    ("gateway", "averageUtilization: 70", "averageUtilisation: 70", "averageUtilisation"),
    ("leaderworkerset", "restartPolicy: None", "restartPolicy: Never", "Never"),
    ("leaderworkerset", "failureThreshold: 300", "failureTreshold: 300", "failureTreshold"),
    ("httproute", "backendRequest", "backendTimeout", "backendTimeout"),
    ("httproute", "gatewayClassName", "gatewayClass", "gatewayClass"),
    ("httproute", "caCertificateRefs", "caCertRefs", "caCertRefs"),
    ("loader", "accessModes", "accessMode", "accessMode"),
    ("monitoring", "maxReplicaCount", "maxReplicas", "maxReplicas"),
)


@unittest.skipUnless(RENDERER, "needs kubectl or kustomize")
class Kustomizations(unittest.TestCase):
    def test_all_are_looked_at(self):
        folders = {os.path.basename(os.path.dirname(path)) for path in glob.glob(os.path.join(DEPLOY, "k8s", "*", "kustomization.yaml"))}
        self.assertEqual(folders, set(KUSTOMIZATIONS))

    def test_they_fit_the_programs(self):
        for name in KUSTOMIZATIONS:
            self.assertEqual(check(rendered(name)), [], name)

    def test_planted_mistakes_are_found(self):
        for name, right, wrong, words in PLANTED:
            self.assertIn(right, rendered(name), f"{name}: nothing to plant {wrong!r} in")
            problems = check(rendered(name).replace(right, wrong))
            self.assertTrue(any(words in problem for problem in problems), f"{name}: {wrong!r}: {problems}")

    def test_shapes(self):
        python = schemas.python()
        if python is None:
            self.skipTest("no schemas without the Python package index")
        for name, right, _, _ in MISSHAPEN:
            self.assertIn(right, rendered(name))
        texts = [rendered(name).replace(right, wrong) for name, right, wrong, _ in MISSHAPEN]
        found = schemas.problems(python, [parse(text) for text in (*map(rendered, KUSTOMIZATIONS), *texts)])
        for name, problems in zip(KUSTOMIZATIONS, found):
            self.assertEqual(problems, [], name)
        for (name, _, wrong, words), problems in zip(MISSHAPEN, found[len(KUSTOMIZATIONS):]):
            self.assertTrue(any(words in problem for problem in problems), f"{name}: {wrong!r}: {problems}")


class Files(unittest.TestCase):
    def test_compose(self):
        text = read("compose", "compose.yaml")
        self.assertEqual(check_compose(text), [])
        for right, wrong, words in (("--admin-listen", "--operator-listen", "no flag --operator-listen"),
                                    ("stop_grace_period: 45s", "stop_grace_period: 20s", "not above its drain"),
                                    ("w1=unix:/run/tutti/w1.sock", "w1=unix:/run/tutti/w2.sock", "nobody listens"),
                                    ("[CMD, tutti, status]", "[CMD, tutti, health]", "no command"),
                                    ("TUTTI_ADMIN", "TUTTI_OPERATOR", "no program reads")):
            self.assertIn(right, text)
            self.assertTrue(any(words in problem for problem in check_compose(text.replace(right, wrong))), wrong)

    def test_image(self):
        text = read("docker", "Dockerfile")
        self.assertEqual(check_image(text), [])
        for right, wrong, words in (("AS cpu", "AS cpus", "no stage cpu"),
                                    ("tutti-cuda_*.deb", "tutti-gpu_*.deb", "no package tutti-gpu"),
                                    ("from=packages,target=/packages dpkg", "from=package,target=/packages dpkg", "no stage package before"),
                                    ("COPY tools/setup", "COPY tools/set-up", "no tools/set-up to copy"),
                                    ("ARG VERSION=0.1.0", "ARG VERSION=0.0.9", "the version is not"),
                                    ("image.revision=", "image.revisions=", "no label revision"),
                                    ("USER 65532:65532", "USER 1000:1000", "its user is not"),
                                    ('"$(tutti --version)"', '"$VERSION-$REVISION"', "build stamp")):
            self.assertIn(right, text)
            self.assertTrue(any(words in problem for problem in check_image(text.replace(right, wrong))), wrong)

    def test_images_of_the_manifests_are_built(self):
        for name in KUSTOMIZATIONS if RENDERER else ():
            self.assertLessEqual(set(re.findall(r"image: (\S+)", rendered(name))), set(IMAGES.values()) | LOADERS, name)
        self.assertEqual(set(re.findall(r"image: (\S+)", read("compose", "compose.yaml"))), {"tutti"})

    def test_units(self):
        folder = os.path.join(DEPLOY, "systemd")
        for path in glob.glob(os.path.join(folder, "*.service.in")):
            name = os.path.basename(path)
            text = read("systemd", name)
            self.assertEqual(check_unit(name, text, folder), [])
            for right, wrong in (("--config", "--settings"), ("TimeoutStopSec=60", "TimeoutStopSec=30"),
                                 ("KillSignal=SIGTERM", "KillSignal=SIGINT"), ("@bin@/tutti-", "@bin@/tuti-")):
                self.assertIn(right, text)
                self.assertNotEqual(check_unit(name, text.replace(right, wrong), folder), [], wrong)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    if RENDERER is None and result.wasSuccessful():
        print("deploy: SKIPPED in part: there is neither kubectl nor kustomize")
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())
