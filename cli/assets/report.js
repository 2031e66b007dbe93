"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const readout = document.getElementById("readout");
  const section = document.getElementById("charts");
  const cursors = section.querySelectorAll(".cursor");
  const at = (x) => {
    let low = 0, high = data.x.length - 1;
    while (low < high) { const mid = (low + high + 1) >> 1; if (data.x[mid] <= x) low = mid; else high = mid - 1; }
    return low;
  };
  section.addEventListener("pointermove", (event) => {
    const chart = event.target.closest("svg");
    if (!chart || !data.x.length) return;
    const box = chart.getBoundingClientRect();
    const x = (event.clientX - box.left) * (chart.viewBox.baseVal.width / box.width);
    const i = at(x);
    cursors.forEach((line) => { line.setAttribute("x1", x); line.setAttribute("x2", x); line.style.visibility = "visible"; });
    const types = Object.entries(data.instances).filter(([, n]) => n[i]).map(([name, n]) => `${n[i]} × ${name}`);
    readout.textContent = `${data.t[i]} · ${data.pending[i]} pending · $${data.hourly[i].toFixed(3)}/h · $${data.spent[i].toFixed(2)} so far\n${types.join(", ")}`;
  });
  section.addEventListener("pointerleave", () => { cursors.forEach((line) => { line.style.visibility = "hidden"; }); readout.textContent = ""; });

  const rows = [...document.querySelectorAll("#decisions tbody tr")];
  const filter = document.getElementById("filter");
  const count = document.getElementById("count");
  const show = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      if (!row.hidden) shown += 1;
    }
    count.textContent = `${shown} of ${rows.length}`;
  };
  filter.addEventListener("input", show);
  show();
})();
