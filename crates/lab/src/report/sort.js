// A click, Enter or Space on a heading sorts the rows by that column; once more, the other way round. Numbers have
// thousands apart, and may have a share of error after them.
"use strict";
for (const table of document.querySelectorAll("table.sorts")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  const of = (row, at) => row.cells[at].textContent.trim();
  const number = (text) => parseFloat(text.replaceAll(",", "").replace(/^[^0-9.+-]*/, ""));
  heads.forEach((head, at) => {
    head.tabIndex = 0;
    head.title = "sort";
    const sort = () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const compare = (a, b) => {
        const [x, y] = [of(a, at), of(b, at)], [m, n] = [number(x), number(y)];
        if (isNaN(m) || isNaN(n)) return isNaN(m) && isNaN(n) ? x.localeCompare(y) : isNaN(m) - isNaN(n);
        return m - n;
      };
      const rows = [...body.rows].sort(compare);
      body.append(...(down ? rows.reverse() : rows));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort();
    });
  });
}
