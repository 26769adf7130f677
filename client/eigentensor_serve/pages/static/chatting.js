// A chat: what is written comes as it is written, and says which tasks wrote it.
"use strict";

class Chat {
  constructor(form) {
    this.form = form;
    this.list = document.querySelector("ol.chat");
    this.box = form.elements.message;
    this.send = form.querySelector("button.first");
    this.stop = form.querySelector("[data-do=stop]");
    this.messages = [];
    this.stopping = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.stopping && this.box.value.trim()) this.say(this.box.value);
    });
    this.box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      form.requestSubmit();
    });
    this.stop.addEventListener("click", () => this.stopping?.abort());
    form.querySelector("[data-do=new]").addEventListener("click", () => {
      this.stopping?.abort();
      this.messages = [];
      this.list.replaceChildren();
      this.box.focus();
    });
  }

  /** What is said, and how the answer is drawn. */
  body(said) {
    const { elements } = this.form, options = {};
    for (const name of ["temperature", "max_tokens", "top_p", "top_k", "min_p", "seed"])
      if (elements[name]?.value) options[name] = elements[name].valueAsNumber;
    const system = elements.system.value.trim();
    const messages = [...(system ? [{ role: "system", content: system }] : []), ...said];
    return { model: this.form.dataset.model, messages, stream: true, ...options };
  }

  async say(content) {
    const messages = [...this.messages, { role: "user", content }];
    this.add("user", content);
    const item = this.add("assistant", ""), text = item.querySelector(".said");
    this.box.value = "";
    this.begin();
    try {
      const headers = { "Content-Type": "application/json" }, { signal } = this.stopping;
      const options = { method: "POST", headers, body: JSON.stringify(this.body(messages)), signal };
      const response = await asked("/v1/chat/completions", options);
      for await (const event of events(response)) {
        if (event.error) throw new Refused(event.error.message);
        text.textContent += event.choices[0]?.delta.content ?? "";
        if (event.eigentensor) this.prove(item, event.eigentensor);
      }
    } catch (error) {
      told(error);
      this.note(item, error.name === "AbortError" ? "stopped: nothing more is written or paid" : "broken off");
    } finally {
      if (text.textContent) this.messages = [...messages, { role: "assistant", content: text.textContent }];
      else this.box.value ||= content; // to be said in another way
      this.end(item);
    }
  }

  begin() {
    problem();
    this.stopping = new AbortController();
    this.stop.hidden = false;
    this.send.hidden = true;
  }

  end(item) {
    this.stopping = null;
    this.stop.hidden = true;
    this.send.hidden = false;
    item.removeAttribute("aria-busy");
    this.box.focus();
  }

  add(role, content) {
    const item = document.getElementById(role).content.firstElementChild.cloneNode(true);
    item.querySelector(".said").textContent = content;
    this.list.append(item);
    item.scrollIntoView({ block: "nearest" });
    return item;
  }

  note(item, words) {
    item.querySelector(".proof").append(words);
  }

  /** The seed that repeats an answer, and its tasks: each with its state and where its receipt is. */
  prove(item, { seed, tasks }) {
    const place = item.querySelector(".proof");
    place.append(`seed ${seed}`);
    for (const { task, state, receipt } of tasks) {
      const link = document.createElement("a");
      link.href = `/tasks/${task}`;
      link.textContent = `${task.slice(0, 6)}…${task.slice(-4)}`;
      place.append(" · ", link, ` ${state}`);
      if (!receipt) continue;
      const file = document.createElement("a");
      Object.assign(file, { href: receipt, download: `${task.slice(0, 10)}.receipt.json`, textContent: "receipt" });
      place.append(" ", file);
    }
  }
}

/** The objects of a stream of events, as they come. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (rest + part.value).split("\n\n");
    rest = lines.pop();
    for (const line of lines)
      if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
  }
}

for (const form of document.querySelectorAll("form.chat")) new Chat(form);
