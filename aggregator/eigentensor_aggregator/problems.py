"""Errors that only a gateway has."""

from http import HTTPStatus

from eigentensor.errors import StoreError, TaskError
from eigentensor.web import problems


class ChallengeNotFound(TaskError):
    exit_code = 4


class NotAllowed(TaskError):
    """The request is signed by somebody who may not say this."""

    exit_code = 11


class Away(StoreError):
    """The database or the folder of blobs does not answer."""


problems.STATUS[Away] = HTTPStatus.SERVICE_UNAVAILABLE
problems.STATUS[ChallengeNotFound] = HTTPStatus.NOT_FOUND
problems.STATUS[NotAllowed] = HTTPStatus.FORBIDDEN
