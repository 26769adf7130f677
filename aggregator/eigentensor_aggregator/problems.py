"""Errors that only a gateway has."""

from http import HTTPStatus

from eigentensor.errors import TaskError
from eigentensor.web import problems


class ChallengeNotFound(TaskError):
    exit_code = 4


class NotAllowed(TaskError):
    """The request is signed by somebody who may not say this."""

    exit_code = 11


problems.STATUS[ChallengeNotFound] = HTTPStatus.NOT_FOUND
problems.STATUS[NotAllowed] = HTTPStatus.FORBIDDEN
