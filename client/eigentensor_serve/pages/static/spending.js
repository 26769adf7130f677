// Requests that may cost something: with the token of this tab, which no other page has and no cookie holds.
"use strict";

const TOKEN = "token"; // where this tab keeps it

/** fetch, with the token where there is one. Throws what was refused, in the words of the service. */
async function asked(url, options = {}) {
  const headers = new Headers(options.headers), token = sessionStorage.getItem(TOKEN);
  if (token) headers.set("Authorization", `Bearer ${token}`);
  let response;
  try {
    response = await fetch(url, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The service does not answer.", "Start it again; what was paid for goes on.");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  if (response.status === 401) {
    const page = encodeURIComponent(location.pathname + location.search);
    throw new Refused("This tab may read, not spend.", "Show the token in it, too.", `/sign-in?to=${page}`);
  }
  throw new Refused(said.detail ?? said.error?.message ?? `The service answered ${response.status}.`, said.fix);
}

/** What was refused, what to do, and perhaps where. */
class Refused extends Error {
  constructor(what, fix = "", link = "") {
    super(what);
    Object.assign(this, { fix, link });
  }
}

/** Shows what went wrong; nothing shows that nothing is. */
function problem(what = "", fix = "", link = "") {
  const place = document.getElementById("problem");
  place.replaceChildren();
  if (!what) return;
  const text = document.createElement("p");
  text.textContent = [what, fix].filter(Boolean).join(" ");
  place.append(text);
  if (!link) return;
  const way = document.createElement("a");
  way.href = link;
  way.textContent = "Sign in";
  text.append(" ", way);
}

/** Shows an error that was thrown, unless somebody has stopped it. */
function told(error) {
  if (error.name !== "AbortError") problem(error.message, error.fix, error.link);
}

// A button that posts, and then shows the page as it is.
document.addEventListener("click", async ({ target }) => {
  const button = target.closest("button[data-post]");
  if (!button) return;
  button.disabled = true;
  try {
    await asked(button.dataset.post, { method: "POST" });
    location.reload();
  } catch (error) {
    told(error);
    button.disabled = false;
  }
});
