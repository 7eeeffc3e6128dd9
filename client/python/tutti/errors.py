"""How a call fails."""
import grpc


class TuttiError(Exception):
    """A call ended with a status other than OK, for good: it was not worth another try, or the tries are used up.

    What was handed on before stays good: the tokens of a stream are those of an undisturbed one up to there.
    """

    def __init__(self, code: grpc.StatusCode, details: str, *, address: str = "", tries: int = 0) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code = code        # the service's, or gRPC's where it was not reached
        self.details = details  # names the field, limit or worker at fault
        self.address = address  # of the last try
        self.tries = tries      # that failed since the last token, this one included


class ProtocolError(TuttiError):
    """The service broke the promises of its API (positions repeat or leave a gap, a stream ends too soon, another
    model goes on with an answer). No tokens are made up for it."""

    def __init__(self, details: str) -> None:
        super().__init__(grpc.StatusCode.INTERNAL, details)
