
"use strict";
// A press on a column's head sorts by it, a second one the other way round. Numbers come as data-order; what has no
// number is last either way.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const key = (row, i) => {
    const cell = row.cells[i];
    if ("order" in cell.dataset) return Number(cell.dataset.order.replace("inf", "Infinity"));
    return cell.classList.contains("none") || cell.classList.contains("number") ? null : cell.textContent;
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? (a === b ? 0 : a - b)
    : String(a).localeCompare(String(b), "en", {numeric: true});
  heads.forEach((head, i) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].map(row => [key(row, i), row]);
    rows.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : (down ? -1 : 1) * compare(a, b));
    body.append(...rows.map(([, row]) => row));
  }));
}
