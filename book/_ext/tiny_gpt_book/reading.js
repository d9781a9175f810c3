/* What a reader has read, kept in the browser alone: a ring beside each page of the book, full once its end was seen.
 *
 * Also: everything folded is open on paper, and the switch of the theme says which mode it is in. Storage that is
 * blocked has been replaced by one that forgets (theme_patches.py), and one that holds nonsense counts as empty.
 */
(() => {
  const KEY = "tiny-gpt:read"; // {page: part of it that was on the screen, 0 to 1}
  const root = new URL(document.documentElement.dataset.content_root, location.href);
  const nameOf = (url) => new URL(url, location.href).pathname.replace(root.pathname, "").replace(/\.html$/, "");
  const here = nameOf(location.href);
  const links = [...document.querySelectorAll(".bd-docs-nav li > a.internal")];

  function stored() {
    try {
      const value = JSON.parse(localStorage.getItem(KEY));
      return value?.constructor === Object ? value : {};
    } catch {
      return {};
    }
  }
  function store(read) {
    try {
      localStorage.setItem(KEY, JSON.stringify(read));
    } catch {
      // full: nothing is kept, and the page does not depend on it
    }
  }

  const forget = document.createElement("p");
  forget.className = "reading-forget";
  forget.innerHTML = '<button type="button">Clear reading marks</button> <span role="status"></span>';
  const [button, status] = forget.children;

  function show() {
    const read = stored();
    for (const link of links) {
      const part = Math.min(1, Math.max(0, Number(read[nameOf(link.href)]) || 0));
      const state = part === 1 ? "read" : part > 0.05 ? "begun" : "";
      link.style.setProperty("--read", part);
      link.dataset.read = state;
      let words = link.querySelector(".reading-words");
      if (!words && state) {
        words = link.appendChild(document.createElement("span"));
        words.className = "reading-words";
      }
      if (words) words.textContent = state && ` (${state})`;
    }
    button.hidden = !Object.keys(read).length && document.activeElement !== button;
  }

  button.addEventListener("click", () => {
    try {
      localStorage.removeItem(KEY);
    } catch {
      // nothing was kept
    }
    status.textContent = "Cleared.";
    show();
  });
  button.addEventListener("blur", show);

  const article = document.querySelector("article.bd-article");
  if (article && links.some((link) => nameOf(link.href) === here)) {
    document.querySelector(".sidebar-primary-items__end")?.prepend(forget);
    let waiting = false;
    const look = () => {
      waiting = false;
      const { top, bottom, height } = article.getBoundingClientRect();
      const part = bottom <= innerHeight + 40 ? 1 : Math.max(0, (innerHeight - top) / height);
      const read = stored();
      // a page that was only opened is not begun: the first screen counts once it has been left
      if (scrollY < 40 && part < 1) return;
      if (part > (Number(read[here]) || 0)) {
        read[here] = Math.round(part * 100) / 100;
        store(read);
        status.textContent = "";
        show();
      }
    };
    const soon = () => {
      if (!waiting) setTimeout(look, 200);
      waiting = true;
    };
    addEventListener("scroll", soon, { passive: true });
    if (document.readyState === "complete") soon();
    else addEventListener("load", soon);
  }
  addEventListener("storage", show); // another page, in another window
  addEventListener("pageshow", show);
  show();

  let opened = [];
  let theme;
  addEventListener("beforeprint", () => {
    theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light"; // paper is white
    opened = [...document.querySelectorAll("article details:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    document.documentElement.dataset.theme = theme;
    for (const details of opened) details.open = false;
  });

  const deeds = { "window.print()": () => print(), "toggleFullScreen()": () => toggleFullScreen() };
  for (const button of document.querySelectorAll("[data-does]"))
    button.addEventListener("click", deeds[button.dataset.does]);

  // a page from a folder may not fetch the pages that the search has found, to show lines of them
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

  const names = { auto: "as the system", light: "light", dark: "dark" };
  const label = () => {
    for (const one of document.querySelectorAll(".theme-switch-button"))
      one.setAttribute("aria-label", `Colours: ${names[document.documentElement.dataset.mode] ?? "light"}`);
  };
  new MutationObserver(label).observe(document.documentElement, { attributeFilter: ["data-mode"] });
  label();
})();
