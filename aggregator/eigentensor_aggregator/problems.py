"""Errors that only a gateway has."""

from http import HTTPStatus

from eigentensor.errors import StoreError, TaskError, TaskNotFound
from eigentensor.web import problems


class ChallengeNotFound(TaskNotFound):
    """There is no such game."""


class ChannelNotFound(TaskNotFound):
    """There is no such pool, channel or batch."""


class NotAllowed(TaskError):
    """The request is signed by somebody who may not say this."""


class Away(StoreError):
    """The database or the folder of blobs does not answer."""


class StandsBy(StoreError):
    """Another process leads on this database, and takes what is sent."""


problems.STATUS[Away] = HTTPStatus.SERVICE_UNAVAILABLE
problems.STATUS[StandsBy] = HTTPStatus.SERVICE_UNAVAILABLE
problems.STATUS[NotAllowed] = HTTPStatus.FORBIDDEN
