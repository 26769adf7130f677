// The token stays in this tab as well: a cookie reads, it never spends.
"use strict";

sessionStorage.removeItem("token");
document.addEventListener("submit", ({ target }) => {
  if (target.id === "sign-in") sessionStorage.setItem("token", target.elements.token.value.trim());
});
