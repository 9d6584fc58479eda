"use strict";
// Sorts and filters the tables of the page, and shows 25 rows at a time. Without it all rows are there.
(function () {
  const PAGE = 25;
  const collator = new Intl.Collator(undefined, { numeric: true });

  function element(name, text, attributes) {
    const made = document.createElement(name);
    made.textContent = text;
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    return made;
  }

  // Unknown values come last, whichever way the others are sorted.
  function compare(one, other, direction) {
    if (one === null || other === null) return (one === null) - (other === null);
    return (typeof one === "number" ? one - other : collator.compare(one, other)) * direction;
  }

  function build(place) {
    const scroll = place.querySelector(".scroll");
    const body = place.querySelector("tbody");
    const all = Array.from(body.rows);
    const headings = Array.from(place.querySelectorAll("th"));
    let rows = all;
    let first = 0;
    let sorted = { column: -1, direction: 1 };

    const controls = element("div", "", { class: "controls" });
    const label = element("label", "Filter ", {});
    const input = element("input", "", { type: "search", autocomplete: "off", spellcheck: "false" });
    label.append(input);
    const status = element("span", "", { role: "status" });
    const back = element("button", "Previous", { type: "button" });
    const next = element("button", "Next", { type: "button" });
    controls.append(label, status, back, next);
    place.insertBefore(controls, scroll);

    headings.forEach(function (cell, at) {
      const button = element("button", cell.textContent, { type: "button" });
      button.addEventListener("click", function () { sort(at); });
      cell.replaceChildren(button);
    });

    function isNumber(column) {
      return headings[column].matches(".number, .share");
    }

    function value(row, column) {
      const text = row.cells[column].textContent;
      if (!isNumber(column)) return text;
      return text === "" ? null : parseFloat(text.replace(/[,%]/g, ""));
    }

    function draw() {
      const last = Math.min(first + PAGE, rows.length);
      body.replaceChildren(...rows.slice(first, last));
      status.textContent = rows.length ? `${first + 1} to ${last} of ${rows.length.toLocaleString("en")}` : "nothing";
      back.disabled = first === 0;
      next.disabled = last >= rows.length;
    }

    function show() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      rows = all.filter(function (row) {
        const text = row.textContent.toLowerCase();
        return words.every(function (word) { return text.includes(word); });
      });
      if (sorted.column >= 0) {
        rows.sort(function (one, other) {
          return compare(value(one, sorted.column), value(other, sorted.column), sorted.direction);
        });
      }
      first = 0;
      draw();
    }

    function sort(column) {
      const direction = sorted.column === column ? -sorted.direction : isNumber(column) ? -1 : 1;
      sorted = { column, direction };
      headings.forEach(function (cell, at) {
        if (at === column) cell.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
        else cell.removeAttribute("aria-sort");
      });
      show();
    }

    input.addEventListener("input", show);
    back.addEventListener("click", function () { first -= PAGE; draw(); });
    next.addEventListener("click", function () { first += PAGE; draw(); });
    draw();
  }

  document.querySelectorAll("[data-table]").forEach(build);
})();
