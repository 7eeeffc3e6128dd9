"""TCP ports of this machine for processes that must find each other, and find the port again after a restart."""
import random
import socket

# Below those that the system gives to dialling sockets, so that a port is still free when its process has been
# restarted.
LOWEST, HIGHEST = 20000, 32000
_given = set()


def free_port():
    """A port that nothing listens on and that was not given before by this process."""
    # Not by the run's seed: two runs beside each other must differ.
    draw = random.SystemRandom()
    while True:
        port = draw.randrange(LOWEST, HIGHEST)
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
