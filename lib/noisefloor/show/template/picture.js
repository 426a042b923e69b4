// A figure whose points can be clicked: `spots` are [row, left %, top %], `chosen` is a row of them.
const REACH = 22; // pixels

function render({ model, el }) {
  const box = document.createElement("div");
  const drawing = document.createElement("div");
  const near = document.createElement("div");
  const held = document.createElement("div");
  box.className = "nf-figure nf-picture";
  near.className = "nf-ring";
  held.className = "nf-ring nf-held";
  box.append(drawing, near, held);
  el.classList.add("nf-pictures");
  el.append(box);

  const put = (ring, spot) => {
    ring.hidden = !spot;
    if (spot) Object.assign(ring.style, { left: `${spot[1]}%`, top: `${spot[2]}%` });
  };
  const hold = () => put(held, model.get("spots").find(([row]) => row === model.get("chosen")));
  const draw = () => {
    drawing.innerHTML = model.get("markup");
    put(near, null);
    hold();
  };
  const under = (event) => {
    const { left, top, width, height } = drawing.getBoundingClientRect();
    let [best, least] = [null, REACH];
    for (const spot of model.get("spots")) {
      const x = left + (spot[1] / 100) * width - event.clientX;
      const y = top + (spot[2] / 100) * height - event.clientY;
      if (Math.hypot(x, y) < least) [best, least] = [spot, Math.hypot(x, y)];
    }
    return best;
  };
  box.addEventListener("pointermove", (event) => put(near, under(event)));
  box.addEventListener("pointerleave", () => put(near, null));
  box.addEventListener("click", (event) => {
    const spot = under(event);
    if (spot) model.send({ row: spot[0] });
  });
  model.on("change:markup", draw);
  model.on("change:spots change:chosen", hold);
  draw();
}

export default { render };
