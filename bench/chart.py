#!/usr/bin/env python3
"""Draws the ratios of a comparison as an SVG that can be read on light and on dark ground. Behind a bar stand the values
of both sides and what share of the ceiling of the test each is; a tick stands where kernloom would reach it.

    python3 bench/chart.py RESULT.json CHART.svg
"""

import json
import sys
from html import escape

WIDTH, LEFT, RIGHT, ROW, TOP = 960, 330, 290, 26, 64

STYLE = """
  .ground { fill: #ffffff }
  text { font: 13px system-ui, sans-serif; fill: #1c2733 }
  .title { font-size: 16px; font-weight: 600 }
  .quiet { fill: #5b6875 }
  .line { stroke: #9aa5b1; stroke-dasharray: 3 3 }
  .more { fill: #1f7a5c }
  .less { fill: #b3541e }
  .spread { stroke: #1c2733 }
  .ceiling { stroke: #5b6875; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #14191f }
    text { fill: #e6ebf0 }
    .quiet { fill: #9fadba }
    .line { stroke: #66727e }
    .more { fill: #4fc49a }
    .less { fill: #f0935a }
    .spread { stroke: #e6ebf0 }
    .ceiling { stroke: #9fadba }
  }
"""


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def label(row):
    beside = "" if row["against"] == "llama.cpp" else f", {row['row']} beside itself"
    return f"{row['model']}, {row['test']}{beside}"


def chart(result):
    """The SVG of a result: one bar a row, as long as the ratio, with its spread and the two values."""
    rows = result["rows"]
    most_ratio = max([1.0] + [row["most"] for row in rows])
    scale = (WIDTH - LEFT - RIGHT) / most_ratio
    height = TOP + ROW * len(rows) + 40
    machine = result.get("machine") or [{}]
    about = [result.get("processor", ""), f"{result['threads']} threads", result["date"][:10]]
    if machine[0].get("read_gb_per_s"):
        about.insert(2, f"{machine[0]['read_gb_per_s']:.1f} GB/s")
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
           'aria-label="Ratios of kernloom to llama.cpp">', f"<style>{STYLE}</style>", f'<rect class="ground" width="{WIDTH}" height="{height}" rx="8"/>',
           '<text class="title" x="12" y="24">kernloom over llama.cpp at its best settings: ratio, values, shares of the '
           'ceiling</text>',
           f'<text class="quiet" x="12" y="44">{escape(", ".join(part for part in about if part))}</text>']
    bottom = TOP + ROW * len(rows)
    step = max(1, round(most_ratio / 6))
    for tick in range(0, int(most_ratio) + 1, step):
        x = LEFT + tick * scale
        out.append(f'<line class="line" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}"/>')
        out.append(f'<text class="quiet" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick}x</text>')
    for at, row in enumerate(rows):
        y = TOP + ROW * at
        ratio = row["ratio"]
        kind = "more" if ratio >= 1 else "less"
        end = LEFT + ratio * scale
        middle = y + ROW / 2
        values = f"{number(row['kernloom'])} / {number(row['other'])}"
        most = row.get("ceiling")
        shares = f", {most['kernloom']['share']:.0%} / {most['other']['share']:.0%}" if most else ""
        out += [f'<text x="{LEFT - 10}" y="{middle + 4.5:.1f}" text-anchor="end">{escape(label(row))}</text>',
                f'<rect class="{kind}" x="{LEFT}" y="{y + 4}" width="{max(ratio * scale, 1):.1f}" height="{ROW - 8}" '
                f'rx="2"><title>{values} {escape(row["unit"])}</title></rect>',
                f'<line class="spread" x1="{LEFT + row["least"] * scale:.1f}" y1="{middle}" '
                f'x2="{LEFT + row["most"] * scale:.1f}" y2="{middle}"/>',
                f'<text x="{max(end, LEFT + row["most"] * scale) + 8:.1f}" y="{middle + 4.5:.1f}">{ratio:.2f}x'
                f'<tspan class="quiet" dx="8">{values}{shares}</tspan></text>']
        reached = ratio / most["kernloom"]["share"] if most else 0
        if 0 < reached <= most_ratio:
            x = LEFT + reached * scale
            out.append(f'<line class="ceiling" x1="{x:.1f}" y1="{y + 4}" x2="{x:.1f}" y2="{y + ROW - 4}">'
                       f'<title>the ceiling: {number(most["kernloom"]["value"])}</title></line>')
    return "\n".join([*out, "</svg>"]) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as source, open(sys.argv[2], "w", encoding="utf-8") as target:
        target.write(chart(json.load(source)))
