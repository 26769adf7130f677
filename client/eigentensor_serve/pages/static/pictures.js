// Pictures: dropped, chosen or pasted, and made as large as a model wants them.
"use strict";

/** How a model wants what is from 0 to 1: by channel, what is taken off and by what the rest is divided. */
const RANGES = {
  "0-1": { off: [0, 0, 0], by: [1, 1, 1] },
  "0-16": { off: [0, 0, 0], by: [1 / 16, 1 / 16, 1 / 16] },
  "0-255": { off: [0, 0, 0], by: [1 / 255, 1 / 255, 1 / 255] },
  "-1-1": { off: [0.5, 0.5, 0.5], by: [0.5, 0.5, 0.5] },
  imagenet: { off: [0.485, 0.456, 0.406], by: [0.229, 0.224, 0.225] },
  clip: { off: [0.48145466, 0.4578275, 0.40821073], by: [0.26862954, 0.26130258, 0.27577711] },
};

/** Values from 0 to 1, all of one channel after the other, in the range that is chosen; whole for a dtype of whole ones. */
function scaled(values, field) {
  const { off, by } = RANGES[field.querySelector("[name=range]").value];
  const size = Number(field.dataset.height) * Number(field.dataset.width), isWhole = !field.dataset.dtype.includes("float");
  return Array.from(values, (value, i) => {
    const channel = Math.floor(i / size), result = (value - off[channel]) / by[channel];
    return isWhole ? Math.round(result) : result;
  });
}

/** Calls `take` with each picture that is dropped on a field, chosen in it, or pasted while it has the focus. */
function receivePictures(field, take) {
  const read = async (file) => {
    try {
      if (!file?.type.startsWith("image/")) throw new Error("no picture");
      take(await createImageBitmap(file));
    } catch {
      problem(`${file?.name ?? "This"} is no picture that this browser reads.`, "Choose a PNG or JPEG.");
    }
  };
  receiveFiles(field, "input.picture", read, ({ type }) => type.startsWith("image/"));
}

/** Calls `read` with each file that comes to a field. */
function receiveFiles(field, chooser, read, isWanted = () => true) {
  field.querySelector(chooser)?.addEventListener("change", (event) => {
    event.stopPropagation(); // the field tells when there is something of it
    if (event.target.files[0]) read(event.target.files[0]);
  });
  field.addEventListener("dragover", (event) => {
    event.preventDefault();
    field.classList.add("over");
  });
  for (const name of ["dragleave", "drop"]) field.addEventListener(name, () => field.classList.remove("over"));
  field.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) read(event.dataTransfer.files[0]);
  });
  field.addEventListener("paste", (event) => {
    const file = [...event.clipboardData.files].find(isWanted);
    if (file) {
      event.preventDefault();
      read(file);
    }
  });
}

/** Draws a picture in the middle, `scale` as large, on white where it is transparent. */
function drawInside(context, picture, scale) {
  const { width, height } = context.canvas, [wide, high] = [picture.width * scale, picture.height * scale];
  const place = [(width - wide) / 2, (height - high) / 2, wide, high];
  context.clearRect(0, 0, width, height);
  context.save();
  context.fillStyle = "white";
  context.imageSmoothingQuality = "high";
  context.fillRect(...place);
  context.drawImage(picture, ...place);
  context.restore();
}

/** The widget of a picture: cut in the middle to what the model reads. */
class Picture {
  constructor(field) {
    this.field = field;
    this.paper = field.querySelector("canvas.paper");
    this.context = this.paper.getContext("2d", { willReadFrequently: true });
    this.isBlank = true;
    receivePictures(field, (picture) => this.take(picture));
  }

  take(picture) {
    const { width, height } = this.paper;
    drawInside(this.context, picture, Math.max(width / picture.width, height / picture.height));
    this.isBlank = false;
    this.field.classList.remove("blank");
    this.field.dispatchEvent(new Event("change", { bubbles: true }));
  }

  async tensor() {
    if (this.isBlank) throw new Error(`Choose a picture for ${this.field.dataset.input} first.`);
    const { width, height } = this.paper, { data } = this.context.getImageData(0, 0, width, height);
    const channels = Number(this.field.dataset.channels), size = width * height;
    const values = Array.from({ length: channels * size }, (_, i) => {
      const at = 4 * (i % size);
      if (channels === 1) return (0.299 * data[at] + 0.587 * data[at + 1] + 0.114 * data[at + 2]) / 255;
      return data[at + Math.floor(i / size)] / 255;
    });
    let given = scaled(values, this.field);
    if (this.field.dataset.layout === "last")
      given = given.map((_, i) => given[(i % channels) * size + Math.floor(i / channels)]);
    return nested(given, shapeOf(this.field));
  }
}
