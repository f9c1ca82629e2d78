"""How the page looks: one style sheet for a light and a dark screen and for paper; text has a contrast of 4.5 to 1 or more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LIGHT: Final[Mapping[str, str]] = {
    "paper": "#ffffff",
    "panel": "#f5f7fa",
    "ink": "#14181f",
    "quiet": "#4b5563",
    "rule": "#d5dbe3",
    "grid": "#e3e8ef",
    "link": "#0b57a4",
    "good": "#146c2e",
    "bad": "#b3261e",
    "warn": "#8a4b00",
    "good-tint": "#e3f4e6",
    "bad-tint": "#fde9e7",
    "warn-tint": "#fdf0dc",
    "calm-tint": "#e8eef6",
}
_DARK: Final[Mapping[str, str]] = {
    "paper": "#11151b",
    "panel": "#1a2029",
    "ink": "#eef2f7",
    "quiet": "#aab4c2",
    "rule": "#36404e",
    "grid": "#29323e",
    "link": "#8cc6ff",
    "good": "#86d993",
    "bad": "#ff9d96",
    "warn": "#ffc070",
    "good-tint": "#17331e",
    "bad-tint": "#411c1a",
    "warn-tint": "#3d2a10",
    "calm-tint": "#1f2c3d",
}
JOBS_LIGHT: Final = (
    "#a9cfee", "#fbd08c", "#afdcae", "#f5b7b3", "#cfbdec", "#dac4ac", "#f2bcdd", "#9fdcd8", "#dddc92", "#c6ccd7",
)  # fmt: skip
JOBS_DARK: Final = (
    "#1d4e79", "#74470a", "#23602c", "#7d2a2a", "#4d3580", "#5c4128", "#73305c", "#155b58", "#55550f", "#3d4656",
)  # fmt: skip
CURVES_LIGHT: Final = (
    "#1f6fb2", "#9a5500", "#2b7a2b", "#b3261e", "#6b3fa8", "#7a4f2a", "#a8327f", "#0b7570", "#6b6b00", "#4a5568",
)  # fmt: skip
CURVES_DARK: Final = (
    "#7fc1f5", "#ffb74d", "#81cf8a", "#ff9a94", "#c3a7f5", "#d9b48f", "#f29ad0", "#6fd3cc", "#d6d65c", "#b4bfd0",
)  # fmt: skip
HEAT_LIGHT: Final = ("#eaf1f8", "#c9dff2", "#9cc5e8", "#64a3d8", "#2f7dbd", "#165892", "#0a3560")
HEAT_DARK: Final = ("#1b2530", "#1d3d5c", "#205884", "#2c78b0", "#54a0d8", "#93caf1", "#d8eefd")


def _values(
    named: Mapping[str, str], jobs: tuple[str, ...], curves: tuple[str, ...], heat: tuple[str, ...], scheme: str
) -> str:
    pairs = [f"--{name}:{value}" for name, value in named.items()]
    pairs += [f"--j{n}:{value}" for n, value in enumerate(jobs)]
    pairs += [f"--s{n}:{value}" for n, value in enumerate(curves)]
    pairs += [f"--h{n}:{value}" for n, value in enumerate(heat)]
    return f":root{{color-scheme:{scheme};{';'.join(pairs)}}}"


_RULES: Final = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI","Noto Sans",
"Noto Sans CJK KR","Apple SD Gothic Neo","Malgun Gothic",sans-serif}
main,header,footer,nav{max-width:74rem;margin:0 auto;padding:0 1.5rem}
header{padding-top:2.2rem}
h1{font-size:2rem;line-height:1.2;margin:0 0 .3rem;overflow-wrap:anywhere}
h2{font-size:1.35rem;margin:2.8rem 0 .8rem;padding-bottom:.3rem;border-bottom:1px solid var(--rule)}
h3{font-size:1.05rem;margin:0;overflow-wrap:anywhere}
p{margin:.4rem 0 .8rem;max-width:62rem}
a{color:var(--link)}
a:focus-visible,.scroll:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.lead{font-size:1.05rem;color:var(--quiet)}
.quiet,figcaption,.tick,.legend{color:var(--quiet)}
.none{background:var(--panel);border-left:4px solid var(--rule);padding:.7rem 1rem;border-radius:4px}
.skip{position:absolute;left:-99rem}
.skip:focus{left:1rem;top:1rem;background:var(--paper);padding:.4rem .8rem}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;margin:.9rem 0 0;padding:0;font-size:.95rem}
header nav{padding:0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(7.4rem,1fr));gap:.7rem;margin:1.4rem 0 0;padding:0}
.tiles div{background:var(--panel);border:1px solid var(--rule);border-radius:10px;padding:.7rem .9rem;
display:flex;flex-direction:column-reverse;justify-content:flex-end}
.tiles dt{font-size:.85rem;color:var(--quiet)}
.tiles dd{margin:0;font-size:1.3rem;font-weight:650;line-height:1.25;overflow-wrap:anywhere}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.2rem 0 .5rem}
th,td{text-align:left;vertical-align:top;padding:.42rem .7rem .42rem 0;border-bottom:1px solid var(--rule)}
thead th{font-size:.82rem;color:var(--quiet);font-weight:600;white-space:nowrap}
tbody th{font-weight:600;overflow-wrap:anywhere;min-width:8.5rem}
td{overflow-wrap:anywhere;min-width:4rem}
td.wide{min-width:13rem}
td.lines{white-space:pre-wrap;font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:.82rem}
td.keep{white-space:nowrap}
.number{text-align:right;padding-right:1.2rem}
.state{display:inline-block;padding:.05rem .5rem;border-radius:99px;white-space:nowrap;background:var(--calm-tint)}
.state.good{background:var(--good-tint);color:var(--good)}
.state.bad{background:var(--bad-tint);color:var(--bad)}
.state.warn{background:var(--warn-tint);color:var(--warn)}
figure{margin:0 0 1.6rem}
figcaption{font-size:.9rem;margin-top:.35rem}
svg{display:block;width:100%;height:auto;overflow:visible;font-family:inherit}
section>figure svg{min-width:44rem}
svg text{fill:var(--ink);font-size:12px}
svg .tick{fill:var(--quiet);font-size:11px}
svg .row{font-size:11px}
svg .on-bar{font-size:12px;font-weight:600;fill:var(--ink)}
svg .on-bar.small{font-size:10.5px;font-weight:400}
.grid{stroke:var(--grid);stroke-width:1}
.bar{stroke:var(--ink);stroke-opacity:.45;stroke-width:.8}
rect.bad{fill:none;stroke:var(--bad);stroke-width:2.5;stroke-dasharray:6 3}
.unwatched{fill:none;stroke:var(--rule);stroke-dasharray:3 3}
.area{fill-opacity:.22;stroke:none}
.curve{fill:none;stroke-width:1.6;stroke-linejoin:round}
.limit{stroke:var(--quiet);stroke-width:1;stroke-dasharray:4 3}
.legend{display:inline-flex;flex-wrap:wrap;gap:.1rem .9rem;font-size:.82rem}
.key{display:inline-block;width:.85rem;height:.85rem;margin-right:.3rem;border:1px solid var(--rule);vertical-align:-.1rem}
.job{border:1px solid var(--rule);border-left:8px solid var(--rule);border-radius:8px;padding:.8rem 1rem 1rem;margin:0 0 1rem}
.job p{margin:.15rem 0 .6rem}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(15.5rem,1fr));gap:1rem 1.4rem}
.chart{margin:0;display:flex;flex-direction:column;justify-content:space-between}
.chart figcaption{margin:0 0 .2rem;font-size:.85rem}
.chart strong{color:var(--ink);display:block}
.chart svg .tick{font-size:13px}
details{margin:1rem 0}
summary{cursor:pointer;font-weight:600}
footer{margin-top:3rem;padding-top:1rem;padding-bottom:2.5rem;color:var(--quiet);font-size:.88rem}
@media print{
@page{margin:13mm}
html{font-size:12px}
body{font-size:12px}
main,header,footer{max-width:none;padding:0}
nav,.skip{display:none}
h2{break-after:avoid;margin-top:1.4rem}
figure,.job,tr,.tiles{break-inside:avoid}
.scroll{overflow:visible}
section>figure svg{min-width:0}
.tiles{grid-template-columns:repeat(8,1fr);gap:.4rem}
.tiles div{padding:.4rem .5rem}
.tiles dd{font-size:1.1rem}
.charts{grid-template-columns:repeat(4,1fr)}
th,td{padding-right:.4rem;min-width:0}
td.wide{min-width:0}
tbody th{min-width:6.5rem}
table,thead th{font-size:10.5px}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
a{color:inherit;text-decoration:none}
}
"""


def style_sheet() -> str:
    """The whole sheet; paper is always light."""
    light = _values(_LIGHT, JOBS_LIGHT, CURVES_LIGHT, HEAT_LIGHT, "light")
    dark = _values(_DARK, JOBS_DARK, CURVES_DARK, HEAT_DARK, "dark")
    shades = "".join(
        f".j{n}{{fill:var(--j{n})}}.s{n}{{stroke:var(--s{n})}}.area.s{n}{{fill:var(--s{n});stroke:none}}"
        for n in range(10)
    )
    edges = "".join(f".job.e{n}{{border-left-color:var(--s{n})}}" for n in range(10))
    heat = "".join(f".h{n}{{fill:var(--h{n});background:var(--h{n})}}" for n in range(7))
    return f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}{_RULES}{shades}{edges}{heat}"


def schemes() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The named colours of both, for whoever checks their contrast."""
    return _LIGHT, _DARK
