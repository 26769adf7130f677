"""What the OpenAPI document says of the routes of `eigentensor serve`: bodies of two kinds, answers, headers."""

from typing import Any

from eigentensor.task.objects import Result, Task
from eigentensor.web.documents import BINARY, REF, Responses, asks, header, refused, response
from eigentensor_client.results import Plan
from eigentensor_serve.bodies import Body
from eigentensor_serve.queries import AppQuery, parameters
from eigentensor_serve.schemas import Accepted

_UUID = "3f" * 32
#: What every answer about a task says of it; where nobody is paid, neither price nor receipt.
HEADERS = {
    "EigenTensor-Task": header("The task's uuid", _UUID),
    "EigenTensor-State": header("Where it stands: its `stage`", "checked(1)"),
    "EigenTensor-Price": header("Wei for the executor, empty before the acceptance", "30000000"),
    "EigenTensor-Receipt": header("Where its receipt is", f"/v1/tasks/{_UUID}/receipt"),
}
_ROWS = {"EigenTensor-Rows": header("How many rows it has, where fewer were asked for than its program has", "3")}
_STATES = {"EigenTensor-States": header("The bindings root of the new states; zeros: none", "00" * 32)}
_LOCATION = {"Location": header("Where the task is", f"/v1/tasks/{_UUID}")}
_PREFER = asks(
    "Prefer",
    "`respond-async`: the answer is 202 at once; `wait=SECONDS`: it is after so many at the latest (RFC 7240)",
    "wait=30",
)
KEY = asks(
    "Idempotency-Key",
    "Names the request: the same again is the same task, and is paid once; another request under it is refused (422)",
    "order-1",
    pattern="^[!-~]{1,255}$",
)
_BODY = (402, 404, 415, 422, 501, 502, 503, 507)  # what may be wrong with what is asked
RANGE = {"parameters": [asks("Range", "One range of bytes", "bytes=0-1023")]}

TASK: Responses = response(Task, "The task", headers=HEADERS) | refused(404)
RESULT: Responses = response(
    Result, "The outputs", content={"application/octet-stream": BINARY}, headers=HEADERS | _STATES | _ROWS
) | refused(404, 409, 502, 503, 504)
EVENTS: Responses = {
    200: {
        "description": "Each with `id`, `event` (the stage) and `data` (`eigentensor.task/1`), until the task ends",
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": 'id: 1\nevent: open\ndata: {"schema": "eigentensor.task/1", "task": "3f3f…", …}\n\n',
            }
        },
    },
    **refused(404),
}


def executes(model: type[Body], query: type[AppQuery], command: str = "") -> dict[str, Any]:
    """Of a route that takes a task and answers with its result, or with 202; `command` is one that does it."""
    goes_on = response(Accepted, "It goes on: where to ask", status=202, headers=HEADERS | _LOCATION)
    samples = {"x-codeSamples": [{"lang": "Shell", "label": "curl", "source": command}]} if command else {}
    return {
        "openapi_extra": _body(model) | {"parameters": [*parameters(query), KEY, _PREFER]} | samples,
        "responses": RESULT | goes_on | refused(*_BODY),
    }


def quotes(model: type[Body], query: type[AppQuery]) -> dict[str, Any]:
    """Of a route that takes a task and answers with what it would cost."""
    extra = _body(model) | {"parameters": parameters(query, "elements")}
    return {"openapi_extra": extra, "responses": response(Plan, "What it would cost") | refused(*_BODY)}


def _body(model: type[Body]) -> dict[str, Any]:
    content = {
        "application/json": {"schema": {"$ref": REF.format(model=model.__name__)}},
        "application/octet-stream": BINARY,
    }
    what = "What is asked as JSON; or its tensors as a safetensors file, and the rest in the query"
    return {"requestBody": {"required": True, "description": what, "content": content}}
