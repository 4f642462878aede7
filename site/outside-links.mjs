/** Pages link to examples, tests and other files of the repository by relative paths. On the site these become links to GitHub. */
import { existsSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";

const ROOT = join(import.meta.dirname, "..");
const DOCS = join(ROOT, "docs");

/** The address on GitHub of what `href` names, or undefined where it is a page of the site. `page` is the file that has the link. */
export function repositoryLink(href, page, repository) {
  if (/^(?:[a-z]+:|#|\/)/i.test(href)) return undefined;
  const [path = "", anchor] = decodeURI(href).split("#", 2);
  const target = join(dirname(page), path);
  const isPage = !relative(DOCS, target).startsWith("..") && (target.endsWith(".md") || isFolder(target));
  if (isPage) return undefined;
  if (!existsSync(target)) throw new Error(`${relative(ROOT, page)} links to ${href}, which is not there`);
  const kind = isFolder(target) ? "tree" : "blob";
  const hash = anchor === undefined ? "" : `#${anchor}`;
  return encodeURI(`${repository}/${kind}/main/${relative(ROOT, target)}`) + hash;
}

function isFolder(path) {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** A plugin for markdown-it, before VitePress looks at the links. */
export function outsideLinks(md, repository) {
  md.core.ruler.push("outside_links", ({ tokens, env }) => {
    const page = env.realPath ?? env.path;
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      if (token.type !== "link_open") continue;
      const link = repositoryLink(token.attrGet("href"), page, repository);
      if (link !== undefined) token.attrSet("href", link);
    }
  });
}
