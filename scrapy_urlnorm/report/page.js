"use strict";
// Tables of rows that stand as JSON in the page. Every value is put in as text, never as HTML.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const PAGE = 25;
  const collator = new Intl.Collator(undefined, { numeric: true });

  function element(name, text, attributes) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (const key in attributes || {}) made.setAttribute(key, attributes[key]);
    return made;
  }

  function shown(value) {
    return typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: 4 }) : value || "";
  }

  // Unknown values come last, whichever way the others are sorted.
  function compare(one, other, direction) {
    if (one === null || other === null) return (one === null) - (other === null);
    const order = typeof one === "number" ? one - other : collator.compare(one, other);
    return order * direction;
  }

  function build(place) {
    const table = data[place.dataset.table];
    if (!table.rows.length) {
      place.append(element("p", "There is nothing to show.", { class: "note" }));
      return;
    }
    let rows = table.rows;
    let first = 0;
    let sorted = { column: -1, direction: 1 };

    const controls = element("div", undefined, { class: "controls" });
    const label = element("label", "Filter ");
    const input = element("input", undefined, { type: "search", autocomplete: "off", spellcheck: "false" });
    label.append(input);
    const status = element("span", "", { role: "status" });
    const back = element("button", "Previous", { type: "button" });
    const next = element("button", "Next", { type: "button" });
    controls.append(label, status, back, next);

    const grid = element("table");
    grid.append(element("caption", table.caption));
    const head = element("tr");
    const headings = table.columns.map(function (column, at) {
      const cell = element("th", undefined, { scope: "col", class: column.kind });
      const button = element("button", column.name, { type: "button" });
      button.addEventListener("click", function () { sort(at); });
      cell.append(button);
      head.append(cell);
      return cell;
    });
    const top = element("thead");
    top.append(head);
    const body = element("tbody");
    grid.append(top, body);
    const scroll = element("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": table.caption });
    scroll.append(grid);
    place.append(controls, scroll);

    function draw() {
      body.replaceChildren();
      for (const row of rows.slice(first, first + PAGE)) {
        const line = element("tr");
        row.forEach(function (value, at) {
          line.append(element("td", shown(value), { class: table.columns[at].kind }));
        });
        body.append(line);
      }
      const last = Math.min(first + PAGE, rows.length);
      status.textContent = rows.length ? `${first + 1} to ${last} of ${rows.length.toLocaleString("en")}` : "nothing";
      back.disabled = first === 0;
      next.disabled = last >= rows.length;
    }

    function order() {
      if (sorted.column < 0) return;
      rows = rows.slice().sort(function (one, other) {
        return compare(one[sorted.column], other[sorted.column], sorted.direction);
      });
    }

    function sort(column) {
      const isNumber = table.columns[column].kind === "number";
      const direction = sorted.column === column ? -sorted.direction : isNumber ? -1 : 1;
      sorted = { column, direction };
      headings.forEach(function (cell, at) {
        if (at === column) cell.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
        else cell.removeAttribute("aria-sort");
      });
      first = 0;
      order();
      draw();
    }

    function filter() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      rows = table.rows.filter(function (row) {
        const text = row.join(" ").toLowerCase();
        return words.every(function (word) { return text.includes(word); });
      });
      first = 0;
      order();
      draw();
    }

    input.addEventListener("input", filter);
    back.addEventListener("click", function () { first -= PAGE; draw(); });
    next.addEventListener("click", function () { first += PAGE; draw(); });
    draw();
  }

  document.querySelectorAll("[data-table]").forEach(build);
})();
