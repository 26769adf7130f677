// A form of tensors: collects what its widgets have, asks, and shows the task that answers as it changes.
"use strict";

const WIDGETS = { drawing: Drawing, picture: Picture, numbers: Numbers, file: TensorFile };

class Form {
  constructor(form) {
    this.form = form;
    this.widgets = [...form.querySelectorAll("[data-widget]")].map((field) => new WIDGETS[field.dataset.widget](field));
    this.isAsking = this.isStale = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.isAsking) this.ask(); // twice is paid twice
    });
    form.addEventListener("change", () => this.follow());
  }

  /** Asks again after a change, one request at a time, where nothing is paid. */
  follow() {
    const { form } = this, isFree = form.dataset.live !== undefined;
    this.isStale = isFree && !form.querySelector(".blank");
    if (!this.isAsking) this.next();
  }

  /** Asks about what changed meanwhile, unless it changes still: then it is told when that rests. */
  next() {
    if (this.isStale && !this.form.querySelector("[data-widget][aria-busy]")) this.ask();
    else this.form.removeAttribute("aria-busy");
  }

  async body() {
    const { form } = this, inputs = {}, variables = {};
    for (const widget of this.widgets) inputs[widget.field.dataset.input] = await widget.tensor();
    for (const box of form.querySelectorAll("[data-variable]")) variables[box.dataset.variable] = box.valueAsNumber;
    const repeat = form.querySelector("[name=repeat]");
    return { inputs, ...(Object.keys(variables).length && { variables }), ...(repeat && { repeat: repeat.valueAsNumber }) };
  }

  async ask() {
    const { form } = this;
    this.isAsking = true;
    this.isStale = false;
    form.setAttribute("aria-busy", "true");
    problem();
    try {
      const headers = { "Content-Type": "application/json", Prefer: "respond-async" };
      const response = await asked(form.action, { method: "POST", headers, body: JSON.stringify(await this.body()) });
      await show(response.headers.get("EigenTensor-Task"));
    } catch (error) {
      told(error);
    } finally {
      this.isAsking = false;
      this.next();
    }
  }
}

/** Puts the answer of a task where answers are; it keeps itself up to date. */
async function show(task) {
  // Into what stands around it: the answer that is there may replace itself in the meantime.
  await htmx.ajax("GET", `/tasks/${task}`, { target: "#answers", select: "#answer" });
}

for (const form of document.querySelectorAll("form.ask")) new Form(form);
