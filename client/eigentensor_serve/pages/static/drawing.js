// Paper and pen: by mouse, touch and keys, from a picture, or a digit out of a list.
"use strict";

const SIDE = 320; // pixels of the paper
const STEP = 8; // that an arrow key goes
const REST = 150; // milliseconds that the pen rests before others hear of what it drew

/** Lines of each digit, as a hand would write it, in a square from 0 to 1. */
const DIGITS = (() => {
  const arc = (x, y, wide, high, from, to) =>
    Array.from({ length: 21 }, (_, k) => {
      const angle = ((from + ((to - from) * k) / 20) * Math.PI) / 180;
      return [x + wide * Math.cos(angle), y + high * Math.sin(angle)];
    });
  return [
    [arc(0.5, 0.5, 0.32, 0.5, -90, 270)],
    [[[0.34, 0.2], [0.52, 0], [0.52, 1]]],
    [[...arc(0.5, 0.27, 0.32, 0.27, -170, 30), [0.15, 1], [0.85, 1]]],
    [[...arc(0.47, 0.25, 0.3, 0.25, -150, 90), ...arc(0.47, 0.75, 0.35, 0.25, -90, 150)]],
    [[[0.4, 0], [0.1, 0.6], [0.9, 0.6]], [[0.7, 0.2], [0.6, 1]]],
    [[[0.8, 0], [0.25, 0], [0.2, 0.45], ...arc(0.45, 0.68, 0.33, 0.32, -110, 150)]],
    [[[0.7, 0], [0.35, 0.3], [0.2, 0.6], ...arc(0.5, 0.72, 0.3, 0.28, 180, -180)]],
    [[[0.15, 0], [0.85, 0], [0.4, 1]]],
    [[...arc(0.5, 0.25, 0.27, 0.25, 90, 450), ...arc(0.5, 0.75, 0.33, 0.25, -90, 270)]],
    [[...arc(0.5, 0.28, 0.3, 0.28, 0, -360), [0.8, 0.28], [0.75, 1]]],
  ];
})();

/** The widget of a small grey picture: draws, and gives what was drawn as the data set would have it. */
class Drawing {
  constructor(field) {
    this.field = field;
    this.height = Number(field.dataset.height);
    this.width = Number(field.dataset.width);
    this.prepare = PREPARATIONS[field.dataset.prepared];
    this.paper = field.querySelector("canvas.paper");
    this.seen = field.querySelector("canvas.seen");
    this.cursor = field.querySelector(".cursor");
    this.pen = field.querySelector("[name=pen]");
    this.context = this.paper.getContext("2d", { willReadFrequently: true });
    this.point = [SIDE / 2, SIDE / 2]; // of the keys
    this.isDown = false;
    this.line = null; // the end of the line that is being drawn
    this.listen();
  }

  listen() {
    const { paper, field } = this;
    paper.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      paper.setPointerCapture(event.pointerId);
      this.hideCursor();
      this.to(this.at(event));
    });
    paper.addEventListener("pointermove", (event) => {
      if (!this.line || !paper.hasPointerCapture(event.pointerId)) return;
      for (const one of event.getCoalescedEvents?.() ?? [event]) this.to(this.at(one));
      this.to(this.at(event));
    });
    for (const name of ["pointerup", "pointercancel"]) paper.addEventListener(name, () => this.lift());
    paper.addEventListener("keydown", (event) => this.key(event));
    paper.addEventListener("blur", () => this.hideCursor());
    field.addEventListener("click", ({ target }) => {
      const button = target.closest("button");
      if (button?.dataset.do === "clear") this.clear();
      if (button?.dataset.digit) this.write(Number(button.dataset.digit));
    });
    receivePictures(field, (picture) => this.take(picture));
  }

  at(event) {
    const box = this.paper.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * SIDE, ((event.clientY - box.top) / box.height) * SIDE];
  }

  /** A line from where the pen is; a dot if it was lifted. */
  to(point) {
    const [x, y] = this.line ?? point, { context } = this;
    context.lineCap = context.lineJoin = "round";
    context.lineWidth = Number(this.pen.value);
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(...point);
    context.stroke();
    this.line = point;
  }

  lift() {
    if (!this.line) return;
    this.line = null;
    this.changed();
  }

  clear() {
    this.context.clearRect(0, 0, SIDE, SIDE);
    this.line = null;
    this.changed();
  }

  write(digit) {
    this.context.clearRect(0, 0, SIDE, SIDE);
    const place = ([x, y]) => [60 + 200 * (0.1 + 0.8 * x), 50 + 220 * y];
    for (const stroke of DIGITS[digit]) {
      stroke.forEach((point) => this.to(place(point)));
      this.line = null;
    }
    this.changed();
  }

  key(event) {
    const moves = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) this.move(moves[event.key]);
    else if (event.key === " ") this.press();
    else if (event.key === "Delete" || event.key === "Backspace") this.clear();
    else if (/^[0-9]$/.test(event.key) && this.field.querySelector("[data-digit]")) this.write(Number(event.key));
    else return;
    event.preventDefault();
  }

  move([x, y]) {
    const inside = (value) => Math.max(0, Math.min(SIDE, value));
    this.point = [inside(this.point[0] + x), inside(this.point[1] + y)];
    if (this.isDown) this.to(this.point);
    this.showCursor();
  }

  press() {
    this.isDown = !this.isDown;
    if (this.isDown) this.to(this.point);
    else this.lift();
    this.showCursor();
  }

  showCursor() {
    this.cursor.hidden = false;
    this.cursor.classList.toggle("down", this.isDown);
    this.cursor.style.left = `${(this.point[0] / SIDE) * 100}%`;
    this.cursor.style.top = `${(this.point[1] / SIDE) * 100}%`;
  }

  hideCursor() {
    if (this.isDown) this.lift();
    this.isDown = false;
    this.cursor.hidden = true;
  }

  /** A picture of something dark on light, or light on dark, as ink. */
  take(picture) {
    const { context } = this;
    drawInside(context, picture, SIDE / Math.max(picture.width, picture.height));
    const image = context.getImageData(0, 0, SIDE, SIDE), { data } = image;
    const light = (at) => (data[at + 3] ? 0.299 * data[at] + 0.587 * data[at + 1] + 0.114 * data[at + 2] : null);
    const lights = Float64Array.from({ length: SIDE * SIDE }, (_, i) => light(4 * i) ?? -1);
    const known = lights.filter((value) => value >= 0).sort();
    const ground = known[known.length >> 1]; // most of it is paper
    const most = Math.max(1, ...[known[0], known[known.length - 1]].map((value) => Math.abs(value - ground)));
    lights.forEach((value, i) => {
      const ink = value < 0 ? 0 : Math.abs(value - ground) / most;
      data.set([0, 0, 0, ink > 0.5 ? 255 : 0], 4 * i);
    });
    context.putImageData(image, 0, 0);
    this.changed();
  }

  /** What the model is given, from 0 to 1; null for empty paper. */
  prepared() {
    const { data } = this.context.getImageData(0, 0, SIDE, SIDE), ink = grid(SIDE, SIDE);
    for (let i = 0; i < ink.values.length; i++) ink.values[i] = data[4 * i + 3] / 255;
    return this.prepare(ink, this.height, this.width);
  }

  /** Soon tells what the model would be given. */
  changed() {
    this.field.setAttribute("aria-busy", "true");
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.tell(), REST);
  }

  tell() {
    const given = this.prepared(), context = this.seen.getContext("2d");
    context.clearRect(0, 0, this.width, this.height);
    if (given) {
      const image = context.createImageData(this.width, this.height);
      given.values.forEach((value, i) => image.data.set([0, 0, 0, Math.round(255 * value)], 4 * i));
      context.putImageData(image, 0, 0);
    }
    this.field.classList.toggle("blank", !given);
    this.field.removeAttribute("aria-busy");
    this.field.dispatchEvent(new Event("change", { bubbles: true }));
  }

  async tensor() {
    const given = this.prepared();
    if (!given) throw new Error(`Draw something for ${this.field.dataset.input} first.`);
    return nested(scaled(given.values, this.field), shapeOf(this.field));
  }
}
