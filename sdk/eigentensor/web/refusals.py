"""The refusals of HTTP services in words, each with an example: components of OpenAPI documents."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from eigentensor.web.problems import MEDIA_TYPE, members

_UUID = "3f" * 32


def _refusal(status: int, what: str, code: str, detail: str, fix: str = "", **headers: str) -> tuple[str, Any]:
    example = members(status, code, detail, fix)
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}}
    response: dict[str, Any] = {"description": what, "content": content}
    if headers:
        response["headers"] = {
            name.replace("_", "-"): {"required": True, "schema": {"type": "string"}, "example": text}
            for name, text in headers.items()
        }
    return "".join(word for word in HTTPStatus(status).phrase.replace("-", " ").title() if word.isalpha()), response


#: By HTTP status: the name of the component, and what it says.
RESPONSES: Mapping[int, tuple[str, dict[str, Any]]] = {
    400: _refusal(400, "The request is malformed", "BadRequest", "query.limit: Input should be a valid integer"),
    401: _refusal(
        401, "There is no token, or it is unknown", "Unauthorized", "this service wants a token that it knows",
        "Send `Authorization: Bearer et_…`; `eigentensor serve token new NAME` makes one.",
        WWW_Authenticate='Bearer realm="eigentensor"',
    ),
    402: _refusal(
        402, "A budget is spent, or the account cannot pay", "BudgetSpent",
        "the budget of today is 1000000000000000000 wei, of which 990000000000000000 are spent or may be",
        "Offer less, or start the service with a higher --budget.",
    ),
    403: _refusal(
        403, "The caller may not say this", "ForeignOrigin", "pages of 'https://example.org' may not call this service",
        "Allow the origin in the service's settings.",
    ),
    404: _refusal(404, "There is no such thing", "TaskNotFound", f"this service has asked for no task {_UUID}"),
    409: _refusal(409, "It is too late, or the chain refuses it", "TaskCancelled", f"task {_UUID} was cancelled"),
    413: _refusal(
        413, "The body is too large", "BlobTooLarge", "the body of this request may have at most 67108864 bytes"
    ),
    415: _refusal(
        415, "The body is of no kind that is taken here", "UNSUPPORTED_MEDIA_TYPE",
        "a body of type 'text/plain' is neither application/json nor application/octet-stream",
    ),
    416: _refusal(
        416, "There are no such bytes", "REQUESTED_RANGE_NOT_SATISFIABLE", "the blob has 80 bytes",
        Content_Range="bytes */80",
    ),
    421: _refusal(
        421, "Asked by a name that is not this machine's", "ForeignHost",
        "without tokens this service answers to localhost alone",
    ),
    422: _refusal(
        422, "It fits no program, no terms, or no earlier request", "BindingError", "there is no input 'y'", "Name x."
    ),
    429: _refusal(
        429, "Too many requests of one caller", "TooManyRequests", "more than 100 requests a second",
        "Wait as long as Retry-After says.", Retry_After="1",
    ),
    500: _refusal(500, "A fault, of whichever part", "Bug", "This service has a fault; its log says more."),
    501: _refusal(
        501, "This service is not set up for that", "ConfigError",
        "this gateway posts no orders: it has no account of its own",
    ),
    502: _refusal(
        502, "An operator, the chain or another service failed", "ExecutorFailed",
        f"executor 0x{'a' * 40} gave no result for task {_UUID} in time; the escrow is back",
        "Post it again: another operator may take it.",
    ),
    503: _refusal(
        503, "Nobody can do it now", "NobodyAccepted",
        f"no operator accepted task {_UUID} until block 130; the escrow is back", "Offer more, or more time.",
    ),
    504: _refusal(504, "It is not there yet", "NotYet", f"task {_UUID} is not executed yet"),
    507: _refusal(507, "The store is full", "StoreFull", "the store may have at most 10737418240 bytes"),
}  # fmt: skip
#: Any other refusal.
REFUSED = {
    "description": "Refused",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
