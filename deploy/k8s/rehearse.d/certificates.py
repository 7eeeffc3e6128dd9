"""An authority, and secrets as the kubelet lays them down: files behind a link that is changed at once, root's, readable for fsGroup."""
import hashlib
import itertools
import os
import secrets
import shutil
import subprocess

from node import USER

WORKERS = 16
KEY = "a-key-of-the-rehearsal"


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Secrets:
    def __init__(self, node):
        self.node, self.turn = node, itertools.count()
        self.ca, self.ca_key = node.path("authority", "ca.pem"), node.path("authority", "ca.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", self.ca_key,
                "-out", self.ca, "-subj", "/CN=rehearsal", "-days", "2")
        self.put("tutti-secret", {"secret": secrets.token_bytes(32)})
        self.put("tutti-keys", {"keys": f"acme {hashlib.sha256(KEY.encode()).hexdigest()}\n".encode()})
        self.issue()

    def issue(self):
        """All certificates, new."""
        # gRPC takes no wildcard above a single label.
        pods = ",".join(f"DNS:tutti-{ordinal}.tutti-pods" for ordinal in range(8))
        pods += ",DNS:tutti-coordinator-0.tutti-members," + ",".join(
            f"DNS:tutti-worker-{ordinal}.tutti-members,URI:tutti://worker/tutti-worker-{ordinal}" for ordinal in range(WORKERS))
        self.put_signed("tutti-tls", f"DNS:tutti,{pods},URI:tutti://coordinator")
        self.put_signed("tutti-gateway-tls", "DNS:tutti-gateway")
        self.put_signed("tutti-gateway-identity", "DNS:tutti-gateway,URI:tutti://gateway/front")

    def put_signed(self, name, alternatives):
        folder = self.node.path("authority", name, "")
        key, request, certificate, extensions = (os.path.join(folder, part) for part in ("key", "request", "certificate", "extensions"))
        with open(extensions, "w", encoding="utf-8") as file:
            file.write("subjectAltName=" + alternatives)
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", request,
                "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.ca_key, "-CAcreateserial", "-out", certificate,
                "-days", "2", "-extfile", extensions)
        parts = {}
        for part, path in (("tls.crt", certificate), ("tls.key", key), ("ca.crt", self.ca)):
            with open(path, "rb") as file:
                parts[part] = file.read()
        self.put(name, parts)

    def folder(self, name):
        return self.node.path("secrets", name, "")

    def put(self, name, parts):
        folder = self.folder(name)
        os.chmod(folder, 0o755)
        fresh = f"..{next(self.turn)}"
        os.mkdir(os.path.join(folder, fresh), 0o755)
        for part, data in parts.items():
            path = os.path.join(folder, fresh, part)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o440), "wb") as file:
                file.write(data)
            os.chown(path, 0, USER)
            os.chmod(path, 0o440)
            link = os.path.join(folder, part)
            if not os.path.lexists(link):
                os.symlink(os.path.join("..data", part), link)
        data = os.path.join(folder, "..data")
        old = os.readlink(data) if os.path.lexists(data) else None
        os.symlink(fresh, data + ".new")
        os.replace(data + ".new", data)
        if old:
            shutil.rmtree(os.path.join(folder, old))
