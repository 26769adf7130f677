// Vectors of texts: how alike they are, and the vectors themselves.
"use strict";

function dot(a, b) {
  return a.reduce((sum, value, i) => sum + value * b[i], 0);
}

function cell(row, kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (kind === "th") made.scope = row.parentElement?.tagName === "THEAD" ? "col" : "row";
  else made.className = "number";
  return row.appendChild(made);
}

/** A table of the cosines between all texts. */
function compare(texts, vectors) {
  const table = document.querySelector("#alike table"), head = table.tHead.rows[0], body = table.tBodies[0];
  head.replaceChildren();
  body.replaceChildren();
  cell(head, "th", "");
  texts.forEach((_, i) => cell(head, "th", String(i + 1)));
  const lengths = vectors.map((vector) => Math.sqrt(dot(vector, vector)));
  vectors.forEach((vector, i) => {
    const row = body.insertRow();
    const text = document.createElement("bdi");
    text.textContent = texts[i];
    cell(row, "th", `${i + 1} `).append(text);
    vectors.forEach((other, j) => {
      const cosine = dot(vector, other) / (lengths[i] * lengths[j]);
      cell(row, "td", cosine.toFixed(3)).classList.toggle("near", i !== j && cosine > 0.7);
    });
  });
  document.getElementById("alike").hidden = false;
}

for (const form of document.querySelectorAll("form.embed"))
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const texts = form.elements.texts.value.split("\n").map((line) => line.trim()).filter(Boolean);
    if (!texts.length || form.ariaBusy) return;
    form.setAttribute("aria-busy", "true");
    problem();
    try {
      const body = JSON.stringify({ model: form.dataset.model, input: texts });
      const headers = { "Content-Type": "application/json" };
      const answer = await (await asked("/v1/embeddings", { method: "POST", headers, body })).json();
      compare(texts, answer.data.map(({ embedding }) => embedding));
      const { tasks } = answer.eigentensor;
      await htmx.ajax("GET", `/tasks/${tasks.at(-1).task}`, { target: "#answers", select: "#answer" });
    } catch (error) {
      told(error);
    } finally {
      form.removeAttribute("aria-busy");
    }
  });
