"""Chat templates rendered within bounds of time and memory, in a process of their own that stays."""

import atexit
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from threading import Lock, Timer
from typing import Any

from eigentensor.errors import BindingError, ConfigError

SECONDS = 10.0  #: of a processor that a template may take
_PATIENCE = 60.0  # seconds by the clock: a busy machine is nobody's fault, a process that stands still is
_FIX = "Correct chat_template, or deploy with `--model` and turns of your own."

Message = Mapping[str, Any]


class Renderer:
    """Renders templates, one after the other. Safe for several threads; ended by `close`, or with this process."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def render(self, template: str, messages: Sequence[Message], special: Mapping[str, str]) -> str:
        """The text of a chat, as the template has it, with the beginning of the answer. `special` are the tokenizer's
        tokens by their names (`bos_token`, …).

        Raises BindingError for messages that the template does not take, ConfigError if it takes too long, or dies.
        """
        values = {**special, "messages": messages, "tools": None, "documents": None, "add_generation_prompt": True}
        with self._lock:
            response = self._asked(json.dumps({"template": template, "values": values}).encode() + b"\n")
        if "error" in response:
            raise BindingError(f"the model's template does not take these messages: {response['error']}", fix=_HINT)
        return str(response["text"])

    def close(self) -> None:
        """Ends the process."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def _asked(self, line: bytes) -> dict[str, Any]:
        if self._child is None or self._child.poll() is not None:
            self.close()
            command = [sys.executable, "-m", "eigentensor_models.rendering_child", str(self.seconds)]
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        assert self._child.stdin and self._child.stdout
        timer = Timer(_PATIENCE, self._child.kill)
        timer.start()
        try:
            with suppress(BrokenPipeError):
                self._child.stdin.write(line)
                self._child.stdin.flush()
            answer = self._child.stdout.readline()
        finally:
            timer.cancel()
        if not answer.endswith(b"\n"):
            self.close()
            raise ConfigError(
                f"the model's template takes more than {self.seconds:g} s of a processor, or more memory than it may",
                fix=_FIX,
            )
        response: dict[str, Any] = json.loads(answer)
        return response


_HINT = "Send roles, and an order of them, that the model knows."


@cache
def renderer() -> Renderer:
    """The one of this process."""
    one = Renderer()
    atexit.register(one.close)
    return one
