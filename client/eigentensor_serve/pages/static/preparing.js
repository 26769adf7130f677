// From a drawing to what a model is given: as the people prepared their pictures who made the data sets. Pure.
"use strict";

const GRID = 4; // pixels of the bitmap whose number is one value, across and down
const INK = 312 / 1024; // of a bitmap: what the digits of UCI's Optical Recognition have, whatever their pen was
const FAINT = 0.03; // ink below is none
const SLANT = 0.6; // at most straightened

/** A grid of numbers, row by row. */
function grid(height, width) {
  return { height, width, values: new Float64Array(height * width) };
}

/** The sum of x, y and products of what is drawn, by which it is placed and straightened. */
function moments({ height, width, values }) {
  let mass = 0, x = 0, y = 0, yy = 0, xy = 0;
  for (let i = 0; i < height; i++)
    for (let j = 0; j < width; j++) {
      const ink = values[i * width + j];
      mass += ink; x += ink * j; y += ink * i; yy += ink * i * i; xy += ink * i * j;
    }
  return { mass, x: x / mass, y: y / mass, slant: (xy - (x * y) / mass) / Math.max(yy - (y * y) / mass, 1e-9) };
}

/** The drawing with its rows moved so that it stands upright, in a grid three times as wide. */
function straightened(drawing) {
  const { height, width, values } = drawing, { y, slant } = moments(drawing), upright = grid(height, 3 * width);
  const lean = Math.max(-SLANT, Math.min(SLANT, slant));
  for (let i = 0; i < height; i++) {
    const at = width + Math.round(-lean * (i - y));
    for (let j = 0; j < width; j++) {
      const to = at + j;
      if (to >= 0 && to < upright.width) upright.values[i * upright.width + to] = values[i * width + j];
    }
  }
  return upright;
}

/** The part of a grid that has ink; null for none. */
function trimmed({ height, width, values }) {
  let top = height, bottom = -1, left = width, right = -1;
  for (let i = 0; i < height; i++)
    for (let j = 0; j < width; j++)
      if (values[i * width + j] > 0.5) {
        top = Math.min(top, i); bottom = Math.max(bottom, i); left = Math.min(left, j); right = Math.max(right, j);
      }
  if (bottom < 0) return null;
  const part = grid(bottom - top + 1, right - left + 1);
  for (let i = 0; i < part.height; i++)
    for (let j = 0; j < part.width; j++) part.values[i * part.width + j] = values[(top + i) * width + left + j];
  return part;
}

/** A grid in another size: each value is the mean of the area that it stands for. */
function resized(source, height, width) {
  const across = spread(source.values, source.height, source.width, width);
  const turned = transposed(across, source.height, width);
  return { height, width, values: transposed(spread(turned, width, source.height, height), width, height) };
}

/** Rows of another length. */
function spread(values, rows, length, other) {
  const result = new Float64Array(rows * other), step = length / other;
  for (let k = 0; k < other; k++) {
    const from = k * step, to = from + step;
    for (let j = Math.floor(from); j < Math.min(length, Math.ceil(to)); j++) {
      const share = (Math.min(to, j + 1) - Math.max(from, j)) / step;
      for (let i = 0; i < rows; i++) result[i * other + k] += share * values[i * length + j];
    }
  }
  return result;
}

function transposed(values, rows, columns) {
  const result = new Float64Array(values.length);
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) result[j * rows + i] = values[i * columns + j];
  return result;
}

/** A grid with another one put into it, its corner at (top, left); what does not fit is cut off. */
function placed(part, height, width, top, left) {
  const whole = grid(height, width);
  for (let i = 0; i < part.height; i++)
    for (let j = 0; j < part.width; j++) {
      const y = top + i, x = left + j;
      if (y >= 0 && y < height && x >= 0 && x < width) whole.values[y * width + x] = part.values[i * part.width + j];
    }
  return whole;
}

/** The part in the largest size that fits into `most` rows and columns. */
function fitted(part, rows, columns) {
  const scale = Math.min(rows / part.height, columns / part.width);
  return resized(part, Math.max(2, Math.round(part.height * scale)), Math.max(2, Math.round(part.width * scale)));
}

/** A grid whose values have run into each other a little. */
function softened({ height, width, values }, times) {
  let now = values;
  for (let n = 0; n < times; n++) {
    const next = new Float64Array(now.length);
    for (let i = 0; i < height; i++)
      for (let j = 0; j < width; j++) {
        const at = i * width + j;
        let sum = 4 * now[at];
        if (i > 0) sum += now[at - width];
        if (i + 1 < height) sum += now[at + width];
        if (j > 0) sum += now[at - 1];
        if (j + 1 < width) sum += now[at + 1];
        next[at] = sum / 8;
      }
    now = next;
  }
  return { height, width, values: now };
}

/** As UCI's digits were made: upright, as high as the bitmap, as much ink as theirs, black pixels counted in squares. */
function counted(drawing, height, width) {
  const part = trimmed(straightened(drawing));
  if (!part) return null;
  const rows = GRID * height, columns = GRID * width, fit = fitted(part, rows, columns);
  const top = (rows - fit.height) >> 1, left = (columns - fit.width) >> 1;
  const soft = softened(placed(fit, rows, columns, top, left), 4);
  const order = [...soft.values.keys()].sort((a, b) => soft.values[b] - soft.values[a] || a - b);
  const counts = grid(height, width);
  for (const at of order.slice(0, Math.round(INK * rows * columns)))
    if (soft.values[at] > FAINT) {
      const y = Math.floor(at / columns / GRID), x = Math.floor((at % columns) / GRID);
      counts.values[y * width + x] += 1 / (GRID * GRID);
    }
  return counts;
}

/** As MNIST's were made: in a box of 20 of 28, greys kept, the centre of mass in the middle. */
function centred(drawing, height, width) {
  const part = trimmed(drawing);
  if (!part) return null;
  const fit = fitted(part, Math.round((height * 20) / 28), Math.round((width * 20) / 28));
  const { x, y } = moments(fit);
  return placed(fit, height, width, Math.round(height / 2 - y - 0.5), Math.round(width / 2 - x - 0.5));
}

const PREPARATIONS = { counted, centred };
