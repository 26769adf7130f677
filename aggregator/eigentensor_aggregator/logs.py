"""One line per event: JSON for machines, words in a terminal."""

import logging
import sys

import structlog

from eigentensor.talk import QUIET


def configure(level: int = logging.INFO) -> None:
    """Sends everything from a level on to stderr, of warnings if quiet is wanted; stdout stays free."""
    level = max(level, logging.WARNING) if QUIET.get() else level
    interactive = sys.stderr.isatty()
    renderer = structlog.dev.ConsoleRenderer() if interactive else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
