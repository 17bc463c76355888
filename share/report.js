/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a page of results from its description, the JSON in the element "page" (doc/reports.md).  The
   one generator of all such pages: fanin sim, plan and lab, experiments and recorded benchmarks only
   describe.  All text is set as text, so that names are no markup. */
"use strict";

const COLOURS = 8, SVG = "http://www.w3.org/2000/svg", PANELS_MAX = 64, ROWS_MAX = 96, TANGLED = 5;
const WIDTH = Math.max(300, Math.min(960, innerWidth - 74)), NARROW = WIDTH < 640;
const FACTOR = 8; /* what grows by more has a logarithmic axis */
const DASHES = ["", "7 3", "2 3", "9 3 2 3"];

function make(parent, name, attributes, text) {
	const svg = name === "svg" || parent && parent.namespaceURI === SVG;
	const e = svg ? document.createElementNS(SVG, name) : document.createElement(name);
	for (const [k, v] of Object.entries(attributes || {}))
		if (v !== undefined && v !== null && v !== false)
			e.setAttribute(k, typeof v === "number" && svg ? +v.toFixed(2) : v);
	if (text !== undefined) e.textContent = text;
	if (parent) parent.append(e);
	return e;
}

/* ---- numbers ---------------------------------------------------------------------- */

const is = v => typeof v === "number" && isFinite(v);
const SCALES = {s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
	bytes: [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]};

function digits(v) {
	if (Number.isInteger(v) && Math.abs(v) < 1e7) return Math.abs(v) < 1e4 ? String(v) : v.toLocaleString("en-US");
	const text = v.toPrecision(4);
	return text.includes("e") ? text : String(+text);
}

/* "3.2 ms"; without `unit`, where a column's head or an axis has it, the number alone. */
function number(v, unit, alone) {
	if (!is(v)) return "–";
	if (unit === "share") return digits(+(100 * v).toFixed(1)) + (alone ? "" : " %");
	const scale = !alone && SCALES[unit];
	if (!scale) return digits(v) + (unit && !alone ? " " + unit : "");
	if (v === 0) return "0 " + scale[scale.length - 1][1];
	const [by, name] = scale.find(([by]) => Math.abs(v) >= by) || scale[scale.length - 1];
	return digits(+(v / by).toPrecision(4)) + " " + name;
}

/* Of an axis in seconds the prefix that suits its end, [divisor, name]; other axes stay as they are. */
function axis(name, high) {
	if (name !== "seconds") return [1, name];
	const [by, unit] = SCALES.s.find(([by]) => high >= by) || SCALES.s[0];
	return [by, by === 1 ? name : unit];
}

const unitName = unit => unit === "share" ? "%" : unit || "";

/* 1, 2 or 5 times a power of ten, so that there are at most `most` ticks. */
function step(length, most) {
	let power = Math.pow(10, Math.floor(Math.log10(length / most)));
	return power * [1, 2, 5, 10].find(n => length / (power * n) <= most);
}

function ticks(low, high, most) {
	const by = step(high - low || 1, most), found = [];
	for (let n = Math.ceil(low / by - 1e-9); n * by <= high + 1e-9 * by && found.length < 50; n++)
		found.push(+(n * by).toPrecision(12));
	return found;
}

/* ---- figures ---------------------------------------------------------------------- */

function figure(parent, title, legend) {
	const f = make(parent, "figure");
	make(f, "figcaption", {}, title);
	if (legend && legend.length > 1) {
		const p = make(f, "p", {class: "legend"});
		legend.forEach((name, i) => {
			const span = make(p, "span");
			const swatch = make(span, "svg", {viewBox: "0 0 26 10", class: "swatch"});
			swatch.setAttribute("aria-hidden", "true");
			legend.swatch(swatch, i);
			span.append(" " + name);
		});
	}
	return f;
}

const drawing = (parent, title, width, height) =>
	make(parent, "svg", {viewBox: `0 0 ${width} ${Math.ceil(height)}`, role: "img", "aria-label": title});

const textWidth = text => 7.1 * String(text).length;
const shorter = (text, width) => textWidth(text) <= width ? text : text.slice(0, Math.floor(width / 7.1) - 1) + "…";

function label(svg, x, y, text, cls, anchor, most) {
	const t = make(svg, "text", {x, y, class: cls, "text-anchor": anchor}, most ? shorter(text, most) : text);
	if (most && textWidth(text) > most) make(t, "title", {}, text);
	return t;
}

/* A rectangle for each value of each row; hatched: misses; a line: least to most; a mark. */
function barPanel(parent, b, panel, most, names) {
	const series = b.series ? b.series.length : 1, thick = series > 1 ? 13 : 17, head = NARROW ? 16 : 0; /* a line for the name */
	const high = series * (thick + 1) + 10 + head, rows = panel.rows.slice(0, ROWS_MAX), left = NARROW ? 8 : names + 10, wide = WIDTH - left - (NARROW ? 160 : 200);
	const svg = drawing(parent, `${b.title} ${panel.title || ""}`, WIDTH, rows.length * high + 34);
	const x = v => left + wide * Math.max(0, v) / most, bottom = rows.length * high + 2;
	for (const v of ticks(0, most, NARROW ? 3 : 6)) {
		make(svg, "line", {class: "grid", x1: x(v), x2: x(v), y1: 0, y2: bottom});
		label(svg, x(v), bottom + 14, v === 0 ? "0" : number(v, b.unit, !SCALES[b.unit]), "tick", "middle");
	}
	label(svg, WIDTH - 4, bottom + 14, SCALES[b.unit] ? "" : unitName(b.unit), "name", "end");
	rows.forEach((row, i) => {
		const top = i * high + 5 + head;
		if (NARROW) label(svg, left, top - 5, row.name, "name", "start", WIDTH - left);
		else label(svg, left - 8, top + series * (thick + 1) / 2 + 4, row.name, "name", "end", names);
		row.values.forEach((v, k) => {
			const y = top + k * (thick + 1), mid = y + thick / 2;
			let end = left, text = row.failed && k === 0 ? row.failed : "";
			if (is(v)) {
				const bar = make(svg, "rect", {x: left, y, width: x(v) - left, height: thick, rx: 2,
					class: [].concat(row.misses)[k] ? "misses" : "bar s" + k});
				make(bar, "title", {}, `${row.name}: ${number(v, b.unit)}` +
					(is(row.low) ? `, from ${number(row.low, b.unit)} to ${number(row.high, b.unit)}` : ""));
				end = Math.max(x(v), is(row.high) ? x(row.high) : 0);
				if (is(row.low) && row.high > row.low)
					make(svg, "path", {class: "spread", d: `M${x(row.low)} ${mid}H${x(row.high)}` +
						`M${x(row.low)} ${mid - 4}v8M${x(row.high)} ${mid - 4}v8`});
			}
			if (is(row.mark) && k === 0) {
				make(svg, "path", {class: "mark", d: `M${x(row.mark)} ${y - 3}v${thick + 6}`});
				end = Math.max(end, x(row.mark));
			}
			if (is(row.published) && k === 0) {
				make(make(svg, "circle", {class: "open", cx: x(row.published), cy: mid, r: 6}), "title", {},
					`${row.name}, published: ${number(row.published, b.unit)}`);
				end = Math.max(end, x(row.published) + 6);
			}
			const t = label(svg, end + 7, mid + 4, "", "tick");
			if (text) make(t, "tspan", {class: "failed"}, text + " ");
			t.append(is(v) ? row.text || number(v, b.unit) : text ? "" : "–");
		});
	});
}

function bars(parent, b) {
	const panels = b.panels.slice(0, PANELS_MAX), all = panels.flatMap(p => p.rows);
	const legend = (b.series || []).slice();
	legend.swatch = (svg, i) => make(svg, "rect", {x: 0, y: 0, width: 26, height: 10, rx: 2, class: "bar s" + i});
	const f = figure(parent, b.title, legend);
	const most = Math.max(...all.flatMap(r => [...r.values, r.high, r.mark, r.published]).filter(is), 0) || 1;
	const names = Math.min(460, Math.max(...all.map(r => textWidth(r.name))));
	for (const panel of panels) {
		if (panel.title) make(f, "p", {class: "panel"}, panel.title);
		if (b.sort) panel.rows.sort((p, q) => (is(p.values[0]) ? p.values[0] : Infinity) -
			(is(q.values[0]) ? q.values[0] : Infinity));
		barPanel(f, b, panel, most, names);
	}
	if (b.note) make(f, "p", {class: "legend"}, b.note);
}

/* Without the end at which nothing happens any more: a run goes on until all time-outs have passed. */
function trimmed(lines) {
	const last = Math.max(...lines.map(l => l.y.findLastIndex(v => v > 0)));
	return lines.some(l => l.x) || last < 0 ? lines : lines.map(l => ({...l, y: l.y.slice(0, last + 2)}));
}

/* x of a line: as given, or one every `dx` from `x0` on. */
const xs = line => line.x || line.y.map((_, i) => line.x0 + i * line.dx);

/* 1, 2 and 5 times powers of ten. */
function logTicks(low, high) {
	const found = [];
	for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high) && found.length < 30; p++)
		found.push(...[1, 2, 5].map(n => +(n * 10 ** p).toPrecision(6)).filter(v => v >= low && v <= high));
	return found;
}

/* Names at the ends of lines, moved apart; `ends`: [y, name, class] of each. */
function endNames(svg, ends, x, top, bottom, most) {
	ends.sort((p, q) => p[0] - q[0]);
	ends.forEach((e, i) => { if (i) e[0] = Math.max(e[0], ends[i - 1][0] + 15); });
	for (let i = ends.length - 1, low = bottom; i >= 0; i--, low -= 15) ends[i][0] = Math.max(top, Math.min(ends[i][0], low));
	for (const [y, name, cls] of ends) label(svg, x, y + 4, name, cls, "start", most);
}

function curvePanel(parent, c, lines, own, range, size, title) {
	const [width, height] = size, left = 66, top = c.y_name ? 24 : 12, bottom = 44, ends = [];
	const right = own === undefined && c.lines.length > 1 ? 24 + Math.min(NARROW ? 110 : 230, Math.max(...lines.map(l => textWidth(l.name)))) : 14;
	const svg = drawing(parent, title, width, height);
	const [x0, x1, y1, y0] = range, [byX, nameX] = axis(c.x_name, x1), [byY, nameY] = axis(c.y_name, y1);
	const at = c.log_x ? Math.log : v => v, up = y0 ? Math.log : v => v;
	const x = v => left + (width - left - right) * (at(v) - at(x0)) / (at(x1) - at(x0) || 1);
	const y = v => height - bottom - (height - top - bottom) * (up(Math.min(v, y1)) - (y0 ? up(y0) : 0)) / (up(y1) - (y0 ? up(y0) : 0));
	for (const v of y0 ? logTicks(y0, y1) : ticks(0, y1, height > 250 ? 6 : 3)) {
		make(svg, "line", {class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v)});
		label(svg, left - 7, y(v) + 4, digits(+(v / byY).toPrecision(6)), "tick", "end");
	}
	const seen = [...new Set(lines.flatMap(xs))].sort((p, q) => p - q), room = width > 500 ? 10 : 4;
	let last = -Infinity;
	for (const v of c.log_x || seen.length <= room ? seen : ticks(x0, x1, room)) {
		const tick = digits(+(v / byX).toPrecision(6));
		if (x(v) - last < textWidth(tick) + 6) continue;
		last = x(v);
		make(svg, "line", {class: "tickmark", x1: last, x2: last, y1: height - bottom, y2: height - bottom + 4});
		label(svg, last, height - bottom + 18, tick, "tick", "middle");
	}
	label(svg, width - right, height - 6, nameX, "name", "end", width - left);
	label(svg, left + 4, 12, nameY, "name");
	const order = lines.map((_, i) => i).sort((p, q) => (p === own) - (q === own)); /* its own on top */
	order.forEach(i => {
		const line = lines[i];
		const points = xs(line).map((v, k) => [v, line.y[k]]), mine = own === undefined || own === i;
		const colour = own === undefined ? i : 0;
		let d = "", pen = "M";
		for (const [px, py] of points) {
			if (is(py)) d += `${pen}${x(px).toFixed(1)} ${y(py).toFixed(1)}`;
			pen = is(py) ? "L" : "M";
		}
		if (line.area && mine && d)
			make(svg, "path", {class: "area c" + colour, d: d.replace(/^M/, `M${x(points[0][0])} ${height - bottom}L`) +
				`L${x(points[points.length - 1][0])} ${height - bottom}Z`});
		make(svg, "path", {class: mine ? "line c" + colour : "line behind", d,
			"stroke-dasharray": mine && own === undefined ? DASHES[i % 4] : null});
		if (!mine) return;
		const seenY = line.y.filter(is);
		if (right > 14 && seenY.length) ends.push([y(seenY[seenY.length - 1]), line.name, "end t" + colour]);
		for (const [px, py] of c.marks ? points : [])
			if (is(py)) make(make(svg, "circle", {class: "dot c" + colour, cx: x(px), cy: y(py), r: 3.5}), "title", {},
				`${line.name}: ${number(py)} at ${digits(px)}`);
		for (const [px, text] of line.failed || [])
			make(make(svg, "path", {class: "cross", d: `M${x(px) - 5} ${top + 4}l10 10m0 -10l-10 10`}), "title", {},
				`${line.name} at ${digits(px)}: ${text}`);
	});
	endNames(svg, ends, width - right + 10, top, height - bottom, right - 14);
	for (const p of c.published || []) { /* without x: on the axis */
		const cx = is(p.x) ? x(p.x) : left;
		make(make(svg, "circle", {class: "open", cx, cy: y(p.y), r: 6}), "title", {}, `published: ${p.name}`);
		label(svg, cx + 11, y(p.y) - 7, p.name, "end");
	}
}

/* What many curves over few points cannot show: a panel of bars for each point. */
function curvesAsBars(parent, c, points) {
	bars(parent, {title: c.title, unit: c.y_name === "seconds" ? "s" : c.y_name, sort: true, panels: points.map(p => ({
		title: `${c.x_name}: ${digits(p)}`,
		rows: c.lines.filter(l => xs(l).includes(p)).map(l => ({name: l.name, values: [l.y[xs(l).indexOf(p)]],
			failed: ((l.failed || []).find(f => f[0] === p) || [])[1]}))}))});
}

/* Is a line 0 wherever it has a figure? */
const isZero = l => l.y.some(is) && l.y.every(v => !v) && !(l.failed || []).length;

function curves(parent, c) {
	const given = trimmed(c.lines.slice(0, PANELS_MAX)), points = [...new Set(given.flatMap(xs))].sort((p, q) => p - q);
	if (points.length <= 2 && c.marks) return curvesAsBars(parent, c, points);
	const zero = given.length > 1 ? given.filter(isZero) : []; /* one such line would hide the others */
	const lines = given.filter(l => !zero.includes(l)), note = zero.length ? `0 throughout: ${zero.map(l => l.name).join(", ")}.` : "";
	if (!lines.length) return void make(figure(parent, c.title), "p", {class: "legend"}, note);
	const high = c.y_max || Math.max(...lines.flatMap(l => l.y).filter(is), 0) * 1.05 || 1;
	const all = [...lines.flatMap(l => l.y), ...(c.published || []).map(p => p.y)].filter(is), low = Math.min(...all);
	const log_y = c.marks && !c.y_max && low > 0 && Math.max(...all) / low >= FACTOR;
	const range = log_y ? [points[0], points[points.length - 1], Math.max(...all) * 1.1, low / 1.1] :
		[points[0], points[points.length - 1], Math.max(high, ...(c.published || []).map(p => p.y * 1.08))];
	const many = lines.length > (c.marks ? COLOURS : TANGLED), f = figure(parent, c.title);
	if (c.note || note) make(f, "p", {class: "legend"}, [c.note, note].filter(Boolean).join(" "));
	if (lines.some(l => (l.failed || []).length))
		make(f, "p", {class: "legend"}, "A cross: jobs failed there, and their times are not in the mean.");
	if (!many) return curvePanel(f, c, lines, undefined, range, [WIDTH, 300], c.title);
	const grid = make(f, "div", {class: "panels"});
	lines.forEach((line, i) => {
		const box = make(grid, "div");
		make(box, "p", {class: "panel"}, line.name);
		curvePanel(box, c, lines, i, range, [330, 190], line.name);
	});
}

/* Jobs over time: an iteration light, the next one dark. */
function lanes(parent, l) {
	const f = figure(parent, l.title), left = NARROW ? 80 : 150, wide = WIDTH - left - 20, rows = l.lanes.slice(0, 200);
	const end = Math.max(...rows.map(r => r.done).filter(is), ...rows.flatMap(r => r.ends)) || 1;
	const svg = drawing(f, l.title, WIDTH, rows.length * 22 + 44), x = v => left + wide * v / end;
	const [by, unit] = axis("seconds", end);
	for (const v of ticks(0, end, 8)) {
		make(svg, "line", {class: "grid", x1: x(v), x2: x(v), y1: 0, y2: rows.length * 22});
		label(svg, x(v), rows.length * 22 + 16, digits(+(v / by).toPrecision(6)), "tick", "middle");
	}
	label(svg, WIDTH - 4, rows.length * 22 + 36, unit, "name", "end");
	rows.forEach((row, i) => {
		let from = row.arrival;
		const part = (to, cls, title) => {
			if (to > from) make(make(svg, "rect", {class: cls, x: x(from), y: i * 22 + 3, width: x(to) - x(from),
				height: 14}), "title", {}, `${title}: ${number(to - from, "s")}`);
			from = Math.max(from, to);
		};
		label(svg, left - 8, i * 22 + 14, row.name, "tick", "end", left - 12);
		part(row.ready, "forming", "forming");
		row.ends.forEach((to, n) => part(to, "lane l" + n % 2, `iteration ${n + 1}`));
		part(row.done, "lane l0", "later iterations");
		if (row.error) label(svg, x(from) + 6, i * 22 + 14, row.error, "failed", "start", WIDTH - x(from));
	});
}

/* How much of each row's went to each column. */
function map(parent, m) {
	const f = figure(parent, m.title), left = 96, wide = Math.min(64, (WIDTH - left) / m.columns.length);
	const high = Math.min(28, Math.max(14, wide));
	const svg = drawing(f, m.title, WIDTH, 44 + m.rows.length * high);
	label(svg, left, 14, m.x_name, "name");
	m.columns.forEach((name, i) => label(svg, left + (i + 0.5) * wide, 32, name, "tick", "middle"));
	m.rows.forEach((row, r) => {
		const most = Math.max(...(row.apart ? [row] : m.rows.filter(o => !o.apart)).flatMap(o => o.cells), 1);
		label(svg, left - 8, 40 + (r + 0.5) * high + 4, row.name, "tick", "end");
		row.cells.forEach((v, i) => {
			if (!(v > 0)) return;
			const x = left + i * wide, y = 40 + r * high;
			make(make(svg, "rect", {class: "cell" + (row.apart ? " server" : ""), x: x + 1, y: y + 1, width: wide - 2,
				height: high - 2, "fill-opacity": 0.06 + 0.4 * v / most}), "title", {},
				`${row.name} got ${v} ${m.what} ${m.columns[i]}`);
			if (wide >= 30) label(svg, x + wide / 2, y + high / 2 + 4, v < 1e4 ? String(v) : (v / 1000).toFixed(1) + "k",
				"in", "middle");
		});
	});
}

/* A plan: links as wide and nodes as dark as they are full; a thick border sums.  A link is [node, node, bow,
   share of it and Gb/s there, share and Gb/s back]. */
function network(parent, n) {
	const f = figure(parent, n.title), svg = drawing(f, n.title, n.width, n.height), loads = [];
	const level = full => Math.round(full * 4), links = make(svg, "g", {class: "links"}), nodes = make(svg, "g");
	const fullest = n.fullest || 1; /* what is as dark as can be */
	const says = (name, full, gbps) => {
		if (full > 0) loads.push([name, full, gbps]);
		return `${name}: ${digits(gbps)} Gb/s, ${digits(+(100 * full * fullest).toPrecision(2))} % full`;
	};
	for (const [i, k, bow, full, gbps, back, back_gbps] of [...n.links].sort((p, q) =>
		Math.max(p[3], p[5]) - Math.max(q[3], q[5]))) {
		const a = n.nodes[i], b = n.nodes[k], most = Math.max(full, back);
		make(make(links, "path", {class: "f" + level(most), "stroke-width": 0.8 + (n.wide - 0.8) * most,
			d: `M${a.x} ${a.y}Q${(a.x + b.x) / 2} ${(a.y + b.y) / 2 - 2 * bow} ${b.x} ${b.y}`}), "title", {},
			says(`link ${a.name}-${b.name}`, full, gbps) + "\n" + says(`link ${b.name}-${a.name}`, back, back_gbps));
	}
	for (const v of n.nodes) {
		const g = make(nodes, "g"), s = v.size;
		make(g, "rect", {x: v.x - s, y: v.y - s, width: 2 * s, height: 2 * s, rx: v.kind === "worker" ? s : 3,
			class: `node ${v.kind}${v.sums ? " sums" : ""} ` + (v.passes ? "passes" : "f" + level(v.full))});
		if (v.named) label(g, v.x, v.y + (v.kind === "switch" ? 4 : s + 14), v.name,
			v.kind === "switch" && !v.passes && level(v.full) >= 3 ? "on" : "", "middle");
		make(g, "title", {}, says(`${v.kind} ${v.name}`, v.full, v.gbps));
	}
	const key = make(f, "p", {class: "legend"}, "How full: ");
	[0, 1, 2, 3, 4].forEach(i => {
		const span = make(key, "span"), box = make(span, "svg", {viewBox: "0 0 26 10", class: "swatch"});
		make(box, "rect", {width: 26, height: 10, class: "node f" + i});
		span.append(` ${digits(+(25 * i * fullest).toPrecision(2))} %`);
	});
	key.append(" Thick border: sums. Dashed: cannot sum. Circles: workers. Blue border: server. The pointer shows figures.");
	if (n.alone) return;
	make(parent, "h2", {}, "The fullest");
	table(parent, {columns: [{name: "link, switch or server"}, {name: "full", unit: "share", bar: true},
		{name: "load", unit: "Gb/s"}], rows: loads, sort: [1, "down"], most: 24});
}

/* ---- words and tables --------------------------------------------------------------- */

function cell(tr, v, column) {
	const td = make(tr, "td"), unit = column.unit;
	if (typeof v === "boolean") {
		td.className = v ? "yes" : "no";
		td.textContent = v ? "yes" : "no";
	} else if (v && typeof v === "object") {
		if (v.href) make(td, "a", {href: v.href}, v.text); else td.textContent = v.text;
		if (v.bad) td.className = "bad";
		if (v.n) td.className = "n";
	} else if (typeof v === "number") {
		td.className = "n";
		if (column.bar) make(make(td, "span", {class: "bar"}), "i", {style: `width:${Math.min(100, 100 * v)}%`});
		td.append(number(v, unit, !SCALES[unit] && unit !== "share"));
	} else
		td.textContent = v === null || v === undefined ? "–" : v;
}

const value = v => v && typeof v === "object" ? v.by !== undefined ? v.by : v.text : v;

function compare(p, q) {
	if (typeof p === "number" && typeof q === "number") return p - q;
	return String(p).localeCompare(String(q), "en", {numeric: true});
}

/* Sorted by a column; a click on its head sorts by it, another one the other way. */
function table(parent, t) {
	const box = make(parent, "div", {class: "scroll"}), e = make(box, "table");
	const head = make(make(e, "thead"), "tr"), body = make(e, "tbody");
	let by = t.sort ? t.sort[0] : -1, down = t.sort ? t.sort[1] === "down" : false;
	const fill = () => {
		const rows = [...t.rows];
		if (by >= 0) rows.sort((p, q) => {
			const a = value(p[by]), b = value(q[by]), none = v => v === null || v === undefined;
			return none(a) || none(b) ? none(a) - none(b) : (down ? -1 : 1) * compare(a, b);
		});
		body.replaceChildren();
		rows.slice(0, t.most).forEach(row => {
			const tr = make(body, "tr");
			t.columns.forEach((c, i) => cell(tr, row[i], c));
		});
		[...head.children].forEach((th, i) => th.setAttribute("aria-sort",
			i !== by ? "none" : down ? "descending" : "ascending"));
	};
	t.columns.forEach((c, i) => {
		const numeric = t.rows.some(r => typeof value(r[i]) === "number");
		const th = make(head, "th", {class: numeric ? "n" : null, scope: "col"});
		const button = make(th, "button", {type: "button"}, c.name +
			(c.unit && !SCALES[c.unit] && c.unit !== "share" ? `, ${c.unit}` : ""));
		button.onclick = () => {
			down = by === i ? !down : numeric;
			by = i;
			fill();
		};
	});
	fill();
	if (t.note) make(parent, "p", {}, t.note);
}

function cards(parent, c) {
	const box = make(parent, "div", {class: "cards"});
	for (const item of c.items) {
		const one = make(box, "div", {class: "card"});
		make(one, "b", {class: item.bad ? "bad" : null}, typeof item.value === "string" ? item.value :
			number(item.value, item.unit));
		make(one, "span", {}, item.name);
	}
}

const KINDS = {bars, curves, lanes, map, network, table, cards,
	heading: (parent, b) => make(parent, "h2", {id: b.id}, b.text),
	text: (parent, b) => make(parent, "p", {class: b.bad ? "bad" : null}, b.text),
	fold: (parent, b) => {
		const details = make(parent, "details", {id: b.id, open: b.open});
		make(details, "summary", {}, b.title);
		b.blocks.forEach(inner => KINDS[inner.kind](details, inner));
	}};

function draw() {
	const page = JSON.parse(document.getElementById("page").textContent), main = document.querySelector("main");
	main.replaceChildren();
	make(main, "h1", {}, page.title);
	make(main, "p", {class: "sub"}, page.sub);
	page.blocks.forEach(block => KINDS[block.kind](main, block));
	const f = make(null, "svg", {width: 0, height: 0, class: "hatches", "aria-hidden": "true"});
	const p = make(make(f, "defs"), "pattern", {id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse",
		patternTransform: "rotate(45)"});
	make(p, "rect", {width: 5, height: 5, class: "hatch"});
	make(p, "rect", {width: 1.6, height: 5, class: "gap"});
	main.prepend(f);
	document.body.dataset.drawn = Math.round(performance.now());
}

draw();
