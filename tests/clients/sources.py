"""Source packages of others, whose own tests are run against a gateway: from TUTTI_SUITES, or by pip into a folder.

None of it is kept in the tree. pip unpacks a package and then asks it what it needs, which takes packages of its own and fails
without them; nothing is installed here, so only what was unpacked counts.
"""
import glob
import os
import subprocess
import sys

DOWNLOAD_S = 240


def kept():
    """Where sources are kept until the next time: beside the environment that this runs in."""
    return os.path.join(os.path.dirname(sys.prefix), "sources")


def sources(package, version, folder):
    """The folder of the package's sources; None where they cannot be had. `folder`: where they are kept until the next time."""
    given = os.environ.get("TUTTI_SUITES")
    name = package.replace("-", "_")
    for root in filter(None, [given, os.path.join(folder, f"{name}-{version}")]):
        found = unpacked(root, name, version)
        if found:
            return found
    aside = os.path.join(folder, f"{name}-{version}")
    os.makedirs(aside, exist_ok=True)
    try:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-clean",
                        "--no-build-isolation", "--no-binary", ":all:", "--dest", aside, f"{package}=={version}"],
                       env={**os.environ, "TMPDIR": aside}, capture_output=True, timeout=DOWNLOAD_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return unpacked(aside, name, version)


def unpacked(root, name, version):
    """A folder below with the package's own file about itself, whatever pip calls it."""
    patterns = [f"{name}-{version}", f"{name.replace('_', '-')}-{version}", os.path.join("pip-*", f"{name}_*"),
                os.path.join("pip-*", f"{name.replace('_', '-')}_*")]
    for pattern in patterns:
        for found in glob.glob(os.path.join(root, pattern)):
            if os.path.exists(os.path.join(found, "PKG-INFO")):
                return found
    return None
