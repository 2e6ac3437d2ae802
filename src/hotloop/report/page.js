"use strict";
// Read-outs under the pointer. The page says everything without this, too.
const words = (v) => {
  const short = Number(v.toPrecision(4));
  return Math.abs(short) >= 1000 ? short.toLocaleString("en") : String(short);
};
const numbers = (path) => path.getAttribute("d").match(/-?[\d.]+/g).map(Number);

for (const plot of document.querySelectorAll("svg.plot")) {
  const [x0, x1] = plot.dataset.x.split(" ").map(Number);
  const [low, high, scale] = plot.dataset.y.split(" ");
  const [y0, y1] = [Number(low), Number(high)];
  const cursor = plot.querySelector(".cursor");
  const out = plot.parentElement.querySelector(".read-out");
  const x = (at) => x0 + (at / 1000) * (x1 - x0);
  const y = (at) => {
    const share = 1 - at / 1000;
    return scale === "log" ? y0 * (y1 / y0) ** share : y0 + share * (y1 - y0);
  };
  const curves = [...plot.querySelectorAll("path.line")].map((path) => {
    const band = path.parentElement.querySelector("path.band");
    const flat = numbers(path);
    return {
      label: path.dataset.label,
      xs: flat.filter((_, i) => i % 2 === 0),
      ys: flat.filter((_, i) => i % 2 === 1),
      edge: band ? numbers(band).filter((_, i) => i % 2 === 1) : null,
    };
  });
  const nearest = (xs, at) => {
    let best = 0;
    for (let i = 1; i < xs.length; i++) {
      if (Math.abs(xs[i] - at) < Math.abs(xs[best] - at)) best = i;
    }
    return best;
  };
  const whole = plot.dataset.across.includes("step");
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const at = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * 1000;
    const said = curves.map((curve) => {
      const i = nearest(curve.xs, at);
      const place = x(curve.xs[i]);
      const where = whole ? Math.round(place).toLocaleString("en") : words(place);
      let value = words(y(curve.ys[i]));
      if (curve.edge) {
        const top = y(curve.edge[i]), bottom = y(curve.edge[curve.edge.length - 1 - i]);
        if (words(top) !== words(bottom)) value += ` (${words(bottom)} to ${words(top)})`;
      }
      return `${where}: ${curve.label} ${value}`.replace("  ", " ");
    });
    cursor.setAttribute("x1", `${at / 10}%`);
    cursor.setAttribute("x2", `${at / 10}%`);
    plot.classList.add("pointed");
    out.textContent = said.join("   ");
  });
  plot.addEventListener("pointerleave", () => {
    plot.classList.remove("pointed");
    out.textContent = "";
  });
}
