"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const clock = (t, seconds) => new Date(t * 1000).toISOString().slice(11, seconds ? 19 : 16);
  const day = (t) => new Date(t * 1000).toLocaleDateString("en", { weekday: "short", timeZone: "UTC" });
  const money = (v, digits) => `$${v.toFixed(digits)}`;
  const node = (tag, text, attributes = {}) => {
    const made = document.createElement(tag);
    if (text) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const capacityTypes = Object.keys(data.nodes);
  const color = (capacity) => css(`--${capacity}`) || css("--on-demand");

  // ---- charts: one uPlot each, one time scale for all
  const view = { from: data.start, to: data.end };
  const plots = [];
  const last = data.t.length - 1;
  const t = [...data.t];
  if (!t.length || t[last] < data.end) t.push(data.end);
  const extended = (values) => (values.length < t.length ? [...values, values.length ? values[values.length - 1] : 0] : values);
  const stack = (names) => {
    const base = new Array(t.length).fill(0);
    return names.map((name) => extended(data.nodes[name]).map((v, i) => (base[i] += v)));
  };
  const stepped = uPlot.paths.stepped({ align: 1 }), straight = uPlot.paths.linear();
  const rowsOfWords = Math.min(3, data.bands.filter((b) => b.kind !== "window").length);
  const WORDS = 18 + 14 * rowsOfWords; // pixels above each chart for the words of its bands: windows, then the others

  const drawBands = (u) => {
    const { ctx } = u, { left, top, width, height } = u.bbox, ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath(); ctx.rect(left, top - WORDS * ratio, width, height + WORDS * ratio); ctx.clip();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`; ctx.textBaseline = "top";
    const used = [];
    const word = (text, x, most, fill, tiers) => {
      const room = most - 6 * ratio, edge = left + width;
      let shown = text;
      if (ctx.measureText(shown).width > room) {
        while (shown.length > 4 && ctx.measureText(`${shown}…`).width > room) shown = shown.slice(0, -1);
        if (shown.length <= 4) return;
        shown += "…";
      }
      const w = ctx.measureText(shown).width;
      if (x + w + 6 * ratio > edge) x = Math.max(left, x - w - 6 * ratio); // to the left of its line where the chart ends
      for (const row of tiers) {
        const y = top - WORDS * ratio + row * 14 * ratio;
        if (used.some((b) => b.y === y && x < b.x + b.w + 6 * ratio && x + w + 6 * ratio > b.x)) continue;
        used.push({ x, y, w });
        ctx.fillStyle = fill; ctx.fillText(shown, x + 3 * ratio, y);
        return;
      }
    };
    const marks = data.bands.filter((b) => b.to >= view.from && b.from <= view.to);
    for (const band of marks.filter((b) => b.kind === "window")) {
      const x = u.valToPos(Math.max(band.from, view.from), "x", true), end = u.valToPos(Math.min(band.to, view.to), "x", true);
      ctx.fillStyle = css("--window"); ctx.fillRect(x, top, end - x, height);
    }
    for (const kind of ["interruption", "fault", "capacity", "step"]) {
      for (const band of marks.filter((b) => b.kind === kind)) {
        const x = Math.round(u.valToPos(band.from, "x", true));
        ctx.strokeStyle = css(`--${kind}`); ctx.globalAlpha = 0.55; ctx.lineWidth = ratio; ctx.setLineDash(kind === "step" ? [3 * ratio, 3 * ratio] : []);
        ctx.beginPath(); ctx.moveTo(x, top - 6 * ratio); ctx.lineTo(x, top + height); ctx.stroke(); ctx.globalAlpha = 1;
        word(band.text, x, 170 * ratio, css(`--${kind}`), [1, 2, 3]);
      }
    }
    for (const band of marks.filter((b) => b.kind === "window")) {
      const x = u.valToPos(Math.max(band.from, view.from), "x", true), end = u.valToPos(Math.min(band.to, view.to), "x", true);
      word(band.text, x, Math.max(end - x, 170 * ratio), css("--quiet"), [0]);
    }
    ctx.restore();
  };

  const axis = (format) => ({ stroke: css("--quiet"), grid: { stroke: css("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif", ...format });
  const line = (label, stroke, more = {}) => ({ label, stroke, width: 2, paths: stepped, points: { show: false }, ...more });
  const chart = (id, series, values, format, more = {}) => {
    const holder = byId(id);
    const options = {
      width: holder.clientWidth, height: (id === "spent" ? 110 : 160) + WORDS, padding: [WORDS, 22, 0, 0], tzDate: (ts) => uPlot.tzDate(new Date(ts * 1000), "Etc/UTC"),
      cursor: { sync: { key: "fleetwright" }, drag: { x: true, y: false, setScale: false } },
      legend: { show: false },
      scales: { x: { time: true, range: () => [view.from, view.to] }, y: { range: (u, low, high) => [0, high > 0 ? high * 1.12 : 1] } },
      axes: [axis({ space: 60, size: 28, values: (u, ticks) => ticks.map((tick) => (tick % 86400 === 0 ? day(tick) : clock(tick))) }), axis({ size: 56, space: 34, values: (u, ticks) => ticks.map(format) })],
      series: [{}, ...series], ...more,
      hooks: {
        drawClear: [drawBands],
        setSelect: [(u) => { if (u.select.width > 8) zoom(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")); u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false); }],
        setCursor: [(u) => { if (u.cursor.left >= 0) read(u.posToVal(u.cursor.left, "x")); }],
      },
    };
    const plot = new uPlot(options, [t, ...values], holder);
    plot.over.addEventListener("dblclick", () => zoom(data.start, data.end));
    plots.push(plot);
  };
  const compared = [
    ["karpenter", "with Karpenter's moves: our planner launches, only its own moves let nodes go, and they happen at once", "with Karpenter's moves", css("--spot")],
    ["minimum", "proven minimum: no fleet for the pods of disrupt's last decision costs less", "proven minimum", css("--reserved")],
  ].filter(([key]) => data[key]);
  const build = () => {
    for (const plot of plots.splice(0)) plot.destroy();
    const whole = (v) => (Number.isInteger(v) ? String(v) : "");
    const tops = stack(capacityTypes);
    const layers = capacityTypes.map((name, i) => line(name, color(name), { fill: `${color(name)}66`, width: 1, index: i }));
    chart("pending", [line("pending", css("--bad"), { fill: `${css("--bad")}33` })], [extended(data.pending)], whole);
    const between = layers.slice(1).map((_, i) => ({ series: [i + 1, i + 2] })); // each layer's colour ends where the next begins
    chart("nodes", layers.reverse(), tops.reverse(), whole, { bands: between });
    const others = compared.map(([key, , name, fill]) => [line(name, fill, { dash: [2, 3], width: 1.5 }), extended(data[key])]);
    chart("hourly", [line("without consolidation", css("--kept"), { dash: [6, 4], width: 1.5 }), ...others.map(([one]) => one), line("dollars an hour", css("--on-demand"), { fill: `${css("--on-demand")}22` })], [extended(data.kept), ...others.map(([, values]) => values), extended(data.hourly)], (v) => money(v, 2));
    const total = data.spent[data.spent.length - 1] ?? 0, decimals = total < 1 ? 2 : total < 10 ? 1 : 0;
    chart("spent", [line("dollars so far", css("--on-demand"), { paths: straight })], [extended(data.spent)], (v) => money(v, decimals));
  };
  const legends = {
    nodes: capacityTypes.map((name) => [name, color(name)]),
    hourly: [["what it cost", css("--on-demand")], ["without consolidation: each node that it removed stays, none that it launched comes", css("--kept")], ...compared.map(([, told, , fill]) => [told, fill])],
  };
  const legendInto = (target, entries) => {
    target.replaceChildren(...entries.map(([name, fill]) => { const item = node("li"); const box = node("i"); box.style.background = fill; item.append(box, name); return item; }));
  };
  for (const [id, entries] of Object.entries(legends)) { const list = node("ul", "", { class: "legend" }); legendInto(list, entries); byId(id).before(list); }
  legendInto(byId("capacity"), legends.nodes);

  const indexAt = (moment) => { let low = 0, high = data.t.length - 1; while (low < high) { const mid = (low + high + 1) >> 1; if (data.t[mid] <= moment) low = mid; else high = mid - 1; } return low; };
  let cursor = data.start;
  const read = (moment) => {
    if (!data.t.length) return;
    cursor = moment;
    const i = indexAt(moment);
    const running = capacityTypes.map((name) => `${data.nodes[name][i]} ${name}`).join(", ");
    byId("readout").textContent = `${day(moment)} ${clock(moment, true)} · ${data.pending[i]} wait · ${running} · ${money(data.hourly[i], 3)} an hour (${[`${money(data.kept[i], 3)} without consolidation`, ...compared.filter(([key]) => data[key][i] !== null).map(([key, , name]) => `${money(data[key][i], 3)} ${name}`)].join(", ")}) · ${money(data.spent[i], 2)} so far`;
  };
  const point = (moment) => {
    cursor = Math.min(Math.max(moment, view.from), view.to);
    for (const plot of plots) plot.setCursor({ left: plot.valToPos(cursor, "x"), top: 10 }, false);
    read(cursor);
  };

  // ---- the part of time that is looked at, kept in the address
  const rows = [...document.querySelectorAll("#decisions tbody tr")];
  const state = { node: "" };
  const isWhole = () => view.from <= data.start && view.to >= data.end;
  const remember = () => {
    const parts = [];
    if (!isWhole()) parts.push(`t=${new Date(view.from * 1000).toISOString().slice(0, 19)}Z..${new Date(view.to * 1000).toISOString().slice(0, 19)}Z`);
    if (state.node) parts.push(`node=${encodeURIComponent(state.node)}`);
    if (byId("filter").value) parts.push(`q=${encodeURIComponent(byId("filter").value)}`);
    history.replaceState(null, "", parts.length ? `#${parts.join("&")}` : location.pathname + location.search);
  };
  const zoom = (from, to) => {
    if (to - from < 10) return;
    view.from = Math.max(data.start, from); view.to = Math.min(data.end, to);
    byId("reset").hidden = isWhole();
    for (const plot of plots) plot.setScale("x", { min: view.from, max: view.to });
    drawTimeline(); filterRows(); remember();
  };
  const filterRows = () => {
    const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase(), moment = Number(row.dataset.t);
      row.hidden = !(words.every((word) => text.includes(word)) && moment >= view.from && moment <= view.to && (!state.node || row.dataset.nodes.split(" ").includes(state.node)));
      if (!row.hidden) shown += 1;
    }
    byId("count").textContent = `${shown} of ${rows.length}`;
  };

  // ---- the timeline of nodes
  const position = (moment) => `${(100 * (Math.min(Math.max(moment, view.from), view.to) - view.from)) / (view.to - view.from)}%`;
  const width = (from, to) => `${(100 * Math.max(0, Math.min(to, view.to) - Math.max(from, view.from))) / (view.to - view.from)}%`;
  const drawTimeline = () => {
    const bars = data.lives.filter((life) => (life.ended ?? data.end) >= view.from && life.launched <= view.to).map((life) => {
      const told = `${life.name}, ${life.type} ${life.capacity}, ${clock(life.launched)} to ${life.ended ? clock(life.ended) : "the end"}${life.reason ? `, ${life.reason}` : ""}`;
      const bar = node("button", "", { type: "button", class: "life", "aria-label": told, title: told, "aria-pressed": String(life.name === state.node) });
      const fits = (from, to) => (parseFloat(width(from, to)) / 100) * byId("timeline").clientWidth > 76; // the words, and the padding beside all bars
      const piece = (from, to, name, words) => { const made = node("span", words && fits(from, to) ? words : "", name ? { class: name } : {}); made.style.left = position(from); made.style.width = width(from, to); made.style.background = color(life.capacity); bar.append(made); };
      const ready = life.ready ?? life.ended ?? data.end;
      piece(life.launched, ready, "boot"); piece(ready, life.ended ?? data.end, "", `${life.podCount} ${life.podCount === 1 ? "pod" : "pods"}`);
      if (life.disrupted) { const mark = node("em"); mark.style.left = position(life.disrupted); mark.style.width = width(life.disrupted, life.ended ?? data.end); bar.append(mark); }
      bar.addEventListener("click", () => choose(life.name === state.node ? "" : life.name));
      return bar;
    });
    byId("timeline").replaceChildren(...bars);
  };
  const choose = (name) => {
    state.node = name;
    const life = data.lives.find((found) => found.name === name), panel = byId("life");
    panel.hidden = !life;
    if (life) {
      const steps = [["launched", life.launched], ["joined", life.joined], ["ready", life.ready], ["interruption notice", life.noticed], ["disrupted", life.disrupted], ["gone", life.ended]].filter(([, moment]) => moment);
      const list = node("ol");
      for (const [word, moment] of steps) list.append(node("li", `${day(moment)} ${clock(moment, true)} ${word}${word === "disrupted" ? `: ${life.reason}` : ""}`));
      const heading = node("h3", life.name), box = node("i"); box.style.background = color(life.capacity); heading.prepend(box);
      panel.replaceChildren(heading, node("p", `${life.type}, ${life.capacity}, ${life.zone}; NodePool ${life.pool || "none"}, NodeClaim ${life.claim || "none"}`), node("p", `${money(life.price, 4)} an hour, ${money(life.cost, 2)} in all; ${life.podCount} pods ran here, ${life.evicted} were evicted`), list, node("p", life.pods.join(", "), { class: "pods" }));
    }
    drawTimeline(); filterRows(); remember();
  };

  // ---- keys, buttons, links
  byId("plots").addEventListener("keydown", (event) => {
    const step = (view.to - view.from) / 100, span = view.to - view.from;
    const actions = {
      ArrowRight: () => point(cursor + step), ArrowLeft: () => point(cursor - step), Home: () => point(view.from), End: () => point(view.to),
      "+": () => zoom(cursor - span / 4, cursor + span / 4), "=": () => zoom(cursor - span / 4, cursor + span / 4), "-": () => zoom(cursor - span, cursor + span), Escape: () => zoom(data.start, data.end),
    };
    if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
  });
  byId("timeline").addEventListener("keydown", (event) => {
    const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (next && document.activeElement[next]) { event.preventDefault(); document.activeElement[next].focus(); }
  });
  byId("reset").addEventListener("click", () => zoom(data.start, data.end));
  byId("filter").addEventListener("input", () => { filterRows(); remember(); });
  byId("bands").replaceChildren(...data.bands.map((band) => {
    const item = node("li"), when = band.from === band.to ? `${day(band.from)} ${clock(band.from)}` : `${day(band.from)} ${clock(band.from)} to ${day(band.to)} ${clock(band.to)}`;
    item.append(node("time", when), ` ${band.text}`); return item;
  }));
  const fromAddress = () => {
    const plain = (text) => { try { return decodeURIComponent(text); } catch { return ""; } }; // a link that was cut off
    const given = Object.fromEntries(location.hash.slice(1).split("&").filter(Boolean).map((part) => { const [key, ...rest] = part.split("="); return [key, plain(rest.join("="))]; }));
    byId("filter").value = given.q || "";
    const [from, to] = (given.t || "").split("..").map((text) => Date.parse(text) / 1000);
    if (from && to) zoom(from, to);
    else if (from) point(from);
    choose(given.node || "");
  };
  build(); drawTimeline(); filterRows(); fromAddress();
  addEventListener("hashchange", fromAddress);
  addEventListener("resize", () => { for (const plot of plots) plot.setSize({ width: plot.root.parentNode.clientWidth, height: plot.height }); drawTimeline(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { build(); drawTimeline(); });
})();
