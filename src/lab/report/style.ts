/** The report's look: light and dark by the reader's preference, from a phone to a wide screen, nothing loaded from anywhere. */

export const STYLE = `
:root{color-scheme:light dark;--bg:#f6f5f1;--card:#fff;--ink:#1b2130;--soft:#5b6577;--line:#e3e0d8;--rail:#d9d6cd;
--c0:#2f6fde;--c1:#d2690a;--c2:#1f8f66;--c3:#8e44c0;--c4:#a8790a;--bad:#c42f38;--good:#1c7f46;--warn:#96650a;
--bad-bg:#fbe9ea;--good-bg:#e5f4ea;--warn-bg:#faf0d9;--plain-bg:#eeece6}
@media (prefers-color-scheme:dark){:root{--bg:#0e1218;--card:#161c26;--ink:#e9edf4;--soft:#9aa5b8;--line:#283142;--rail:#2c3648;
--c0:#6ea8ff;--c1:#f5a04a;--c2:#56cf9c;--c3:#c795f0;--c4:#e0bf57;--bad:#ff7378;--good:#5ad088;--warn:#e8b95a;
--bad-bg:#3a1d22;--good-bg:#17321f;--warn-bg:#382c14;--plain-bg:#222a38}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main{max-width:1160px;margin:0 auto;padding:40px 24px 80px}
h1{font-size:34px;line-height:1.15;margin:0 0 8px;letter-spacing:-.02em}
h2{font-size:22px;line-height:1.25;margin:0 0 6px;letter-spacing:-.01em}
p{margin:0 0 10px;max-width:74ch}
a{color:inherit;text-decoration-color:var(--soft);text-underline-offset:3px}
.lead{font-size:18px;color:var(--soft)}
.meta,.source{color:var(--soft);font-size:14px}
.card{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:24px;margin:24px 0}
.chips{display:flex;flex-wrap:wrap;gap:8px;margin:10px 0 14px;padding:0;list-style:none}
.chip{font-size:13px;line-height:1.3;padding:4px 10px;border-radius:14px;background:var(--plain-bg)}
.chip.good{background:var(--good-bg);color:var(--good)}.chip.bad{background:var(--bad-bg);color:var(--bad)}.chip.warn{background:var(--warn-bg);color:var(--warn)}
.scroll{overflow-x:auto;margin:0 -24px;padding:0 24px}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:8px 12px 8px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600;color:var(--soft)}
td .dot{display:inline-block;width:9px;height:9px;border-radius:50%;margin-right:7px;background:var(--soft)}
.dot.good{background:var(--good)!important}.dot.warn{background:var(--warn)!important}.dot.bad{background:var(--bad)!important}
details{border-top:1px solid var(--line);padding-top:14px;margin-top:14px}
details>summary{cursor:pointer;font-weight:600}
summary .chip{font-weight:400;margin-left:8px}
svg{display:block;width:100%;height:auto;margin:6px 0 2px;font:12px system-ui,sans-serif}
svg.narrow{display:none}
.narrow-only{display:none}
.grid{stroke:var(--line)}.rail{stroke:var(--rail);stroke-width:1.5}
.tick{fill:var(--soft);font-size:11px}.lane{fill:var(--soft);font-size:12px}
.belief{opacity:.95}.belief.asleep{opacity:.28}.truth{opacity:.8}
.sleep{fill:url(#hatch)}
.overlap{fill:var(--bad);opacity:.16;stroke:var(--bad);stroke-width:1;stroke-dasharray:3 3}
rect.c0{fill:var(--c0)}rect.c1{fill:var(--c1)}rect.c2{fill:var(--c2)}rect.c3{fill:var(--c3)}rect.c4{fill:var(--c4)}rect.c-other{fill:var(--soft)}
.tie{stroke:var(--soft);stroke-width:1}
.mark circle{fill:var(--card);stroke:var(--soft);stroke-width:1.5}.mark text{fill:var(--ink);font-size:9.5px;font-weight:600}
.mark.grant.c0 circle{stroke:var(--c0);stroke-width:3}.mark.grant.c1 circle{stroke:var(--c1);stroke-width:3}.mark.grant.c2 circle{stroke:var(--c2);stroke-width:3}
.mark.grant.c3 circle{stroke:var(--c3);stroke-width:3}.mark.grant.c4 circle{stroke:var(--c4);stroke-width:3}
.mark.accepted circle{fill:var(--good);stroke:var(--good)}.mark.stale circle{fill:var(--bad);stroke:var(--bad)}
.mark.accepted text,.mark.stale text{fill:var(--card)}
.mark.refused circle{stroke:var(--good);stroke-width:3;stroke-dasharray:3 2}
.mark.lost circle,.mark.fault circle{stroke:var(--warn);stroke-width:2.5}.mark.fault circle{fill:var(--warn-bg)}
.moments{columns:2;column-gap:40px;margin:10px 0 4px;padding:0;list-style:none;font-size:14px}
.moments li{break-inside:avoid;display:grid;grid-template-columns:26px 58px 1fr;gap:0 4px;padding:2px 0}
.moments .n{font-weight:600;font-size:12px;line-height:20px;width:20px;height:20px;border-radius:50%;text-align:center;border:1.5px solid var(--soft)}
.moments .t{color:var(--soft);font-variant-numeric:tabular-nums}
.moments .stale .n{background:var(--bad);border-color:var(--bad);color:var(--card)}.moments .stale{color:var(--bad);font-weight:600}
.moments .accepted .n{background:var(--good);border-color:var(--good);color:var(--card)}
.moments .refused .n{border:2.5px dashed var(--good)}.moments .refused{color:var(--good);font-weight:600}
.moments .fault .n,.moments .lost .n{border:2px solid var(--warn)}
.legend{display:flex;flex-wrap:wrap;gap:6px 20px;margin:14px 0 0;padding:0;list-style:none;font-size:14px;color:var(--soft)}
.legend svg{display:inline-block;width:34px;height:16px;margin:0 6px 0 0;vertical-align:-3px}
code{font:13px ui-monospace,SFMono-Regular,Menlo,monospace;background:var(--plain-bg);border-radius:5px;padding:1px 5px}
@media (max-width:720px){main{padding:24px 12px 60px}h1{font-size:28px}.card{padding:18px 14px;border-radius:12px}.scroll{margin:0 -14px;padding:0 14px}
svg.wide{display:none}svg.narrow{display:block}.moments{columns:1}}
@media print{body{background:#fff}.card{break-inside:avoid}}
`;
