"""Held-out digits, and how a hand paints them: pixel by pixel of the bitmap that their values were counted in."""

from itertools import groupby
from typing import Any

import numpy as np
from playwright.sync_api import Page
from safetensors.numpy import load_file

from eigentensor.capture import import_onnx
from eigentensor.store import save_safetensors
from eigentensor_client.examples import FOLDER
from eigentensor_serve.apps.deployment import Parts, read_parts, with_rows
from eigentensor_serve.apps.registry import Apps

_HELD_OUT = 297  # that no example has learned from
_GRID = 4  # pixels across and down that a value counts
Values = np.ndarray[Any, Any]


def parts(apps: Apps, rows: int = 4) -> Parts:
    """What the app `digits` is made of: the trained example, of which a request gives 1 to so many images."""
    graph = import_onnx(FOLDER / "pytorch_cnn" / "cnn.onnx", {"images": (rows, 1, 8, 8)})
    apps.root.mkdir(parents=True, exist_ok=True)
    save_safetensors(weights := apps.root.parent / "digits.safetensors", dict(graph.weights))
    return with_rows(read_parts(graph.program, str(weights), None, None, apps), ["images"])


def held_out() -> list[tuple[int, Values]]:
    """Labels and counts from 0 to 16, (8, 8)."""
    data = load_file(FOLDER / "digits.safetensors")
    return list(zip(data["labels"][-_HELD_OUT:].tolist(), data["images"][-_HELD_OUT:].astype(int), strict=True))


def bitmap(counts: Values) -> Values:
    """Pixels, (32, 32), of which each square has as many as its count: those that are nearest to ink beside it."""
    places = (np.arange(_GRID * 8) + 0.5) / _GRID - 0.5
    near = np.floor(places).astype(int)
    part = places - near
    padded = np.pad(counts, 1, mode="edge").astype(float)
    rows = padded[near + 1] * (1 - part)[:, None] + padded[near + 2] * part[:, None]
    smooth = rows[:, near + 1] * (1 - part) + rows[:, near + 2] * part
    squares = smooth.reshape(8, _GRID, 8, _GRID).swapaxes(1, 2).reshape(8, 8, -1)
    ranks = np.argsort(np.argsort(-squares, axis=-1, kind="stable"), axis=-1, kind="stable")
    return (ranks < counts[..., None]).reshape(8, 8, _GRID, _GRID).swapaxes(1, 2).reshape(8 * _GRID, 8 * _GRID)


def paint(page: Page, counts: Values) -> None:
    """Draws a digit with the mouse, a stroke for each run of pixels, as `Clear` and the fine pen are there."""
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Pen").select_option("fine")
    paper = page.locator("canvas.paper")
    paper.scroll_into_view_if_needed()
    box = paper.bounding_box()
    assert box is not None
    step = box["width"] / (8 * _GRID)
    for y, row in enumerate(bitmap(counts)):
        for is_ink, run in groupby(enumerate(row), key=lambda pixel: bool(pixel[1])):
            if is_ink:
                xs = [x for x, _ in run]
                height = box["y"] + (y + 0.5) * step
                page.mouse.move(box["x"] + (xs[0] + 0.5) * step, height)
                page.mouse.down()
                page.mouse.move(box["x"] + (xs[-1] + 0.5) * step, height)
                page.mouse.up()
