// What a slider says stands beside it while it moves; the form itself asks the server.
"use strict";

document.addEventListener("input", ({ target }) => {
  const output = target.type === "range" && target.closest("label").querySelector("output");
  if (output) output.textContent = target.value;
  if (target.name === "stake") document.querySelector('[name="own_stake"]').checked = true;
});
