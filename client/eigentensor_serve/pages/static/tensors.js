// Tensors of requests: from numbers that are typed, and from files: .npy, safetensors, JSON.
"use strict";

const NPY = {
  f2: "float16", f4: "float32", f8: "float64", b1: "bool", i1: "int8", i2: "int16", i4: "int32", i8: "int64",
  u1: "uint8", u2: "uint16", u4: "uint32", u8: "uint64",
};
const SAFETENSORS = {
  F16: "float16", BF16: "bfloat16", F32: "float32", F64: "float64", BOOL: "bool", I8: "int8", I16: "int16",
  I32: "int32", I64: "int64", U8: "uint8", U16: "uint16", U32: "uint32", U64: "uint64",
};

function shapeOf(field) {
  return JSON.parse(field.dataset.shape);
}

/** Flat values as nested lists. */
function nested(values, shape) {
  if (shape.length === 0) return values[0];
  if (shape.length === 1) return Array.from(values);
  const size = values.length / shape[0];
  return Array.from({ length: shape[0] }, (_, i) => nested(values.slice(i * size, (i + 1) * size), shape.slice(1)));
}

function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** The tensor in the bytes of a .npy file. Throws for what a request cannot have. */
function ofNpy(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset), isLong = bytes[6] >= 2;
  const start = isLong ? 12 : 10, end = start + (isLong ? view.getUint32(8, true) : view.getUint16(8, true));
  const head = new TextDecoder("latin1").decode(bytes.subarray(start, end));
  const [, order, kind] = /'descr':\s*'([<>|=])(\w+)'/.exec(head) ?? [];
  const shape = /'shape':\s*\(([^)]*)\)/.exec(head)?.[1].split(",").filter((word) => word.trim()).map(Number);
  if (!NPY[kind] || !shape || order === ">" || /'fortran_order':\s*True/.test(head))
    throw new Error("This .npy file is of another dtype or order than a request may have: save it little-endian, in C order.");
  return { dtype: NPY[kind], shape, data: base64(bytes.subarray(end)) };
}

/** The tensor `name` of a safetensors file, or the only one. Throws if there is neither. */
function ofSafetensors(bytes, name) {
  const size = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const { __metadata__: _, ...tensors } = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size)));
  const names = Object.keys(tensors), found = tensors[name] ?? (names.length === 1 ? tensors[names[0]] : null);
  if (!found) throw new Error(`The file has no tensor ${name}: ${names.slice(0, 8).join(", ")}.`);
  const [from, to] = found.data_offsets;
  return { dtype: SAFETENSORS[found.dtype], shape: found.shape, data: base64(bytes.subarray(8 + size + from, 8 + size + to)) };
}

/** What a file says that is to be the input `name`. */
async function ofFile(file, name) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (bytes[0] === 0x93 && bytes[1] === 0x4e) return ofNpy(bytes);
  if (bytes.length > 8 && bytes[8] === 0x7b) return ofSafetensors(bytes, name);
  try {
    const value = JSON.parse(new TextDecoder().decode(bytes));
    return value?.inputs?.[name] ?? value?.[name] ?? value;
  } catch {
    throw new Error(`${file.name} is neither .npy, safetensors nor JSON.`);
  }
}

/** Numbers as they are typed: nested lists as JSON has them, or one after the other, which fill the shape. */
function ofText(text, shape, dtype) {
  const words = text.trim();
  if (words.startsWith("[")) return JSON.parse(words);
  const values = words.split(/[\s,;]+/).filter(Boolean).map((word) => {
    if (dtype === "bool") return ["1", "true"].includes(word.toLowerCase());
    const value = Number(word);
    if (Number.isNaN(value)) throw new Error(`${word} is no number.`);
    return value;
  });
  const size = shape.reduce((a, b) => a * b, 1);
  if (values.length !== size) throw new Error(`These are ${values.length} numbers; it takes ${size}.`);
  return nested(values, shape);
}

/** The widget of a few numbers. */
class Numbers {
  constructor(field) {
    this.field = field;
    this.box = field.querySelector("textarea");
  }

  async tensor() {
    try {
      return ofText(this.box.value, shapeOf(this.field), this.field.dataset.dtype);
    } catch (error) {
      throw new Error(`${this.field.dataset.input}: ${error.message}`);
    }
  }
}

/** The widget of a file. */
class TensorFile {
  constructor(field) {
    this.field = field;
    this.file = null;
    receiveFiles(field, "input.tensor", (file) => {
      this.file = file;
      field.querySelector(".chosen").textContent = `${file.name}, ${file.size.toLocaleString("en")} bytes`;
      field.classList.remove("blank");
      field.dispatchEvent(new Event("change", { bubbles: true }));
    });
  }

  async tensor() {
    if (!this.file) throw new Error(`Choose a file for ${this.field.dataset.input} first.`);
    return ofFile(this.file, this.field.dataset.input);
  }
}
