/** How the pages of docs/ become a site. The pages themselves are plain Markdown, and read as well on GitHub. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitepress";
import { CHINESE, ENGLISH } from "../navigation.mjs";
import { outsideLinks } from "../outside-links.mjs";
import { slugOf } from "../slug.mjs";

const SITE = join(import.meta.dirname, "..");
const ROOT = join(SITE, "..");
const DOCS = join(ROOT, "docs");
const REPOSITORY = "https://github.com/holdfast/holdfast";

const addressOf = (file) => `/${file.replace(/README\.md$/, "").replace(/\.md$/, "")}`;

/** The list of pages is narrower than the longest code of an error: a line may end after each of its words. */
const breakable = (text) => text.replaceAll(/(?<=[A-Z])_/g, "_<wbr>");

/** A page that is not written yet has no entry. */
const toItems = (pages) =>
  pages
    .filter(({ file }) => existsSync(join(DOCS, file)))
    .map(({ text, file }) => ({ text: breakable(text), link: addressOf(file) }));

const toGroups = (groups) =>
  groups
    .map(({ text, pages }, at) => ({ text, collapsed: at > 1, items: toItems(pages) }))
    .filter(({ items }) => items.length > 0);

function decisions() {
  const titleOf = (file) => /^# (.*)$/m.exec(readFileSync(join(DOCS, "decisions", file), "utf8"))?.[1] ?? file;
  const files = readdirSync(join(DOCS, "decisions"))
    .filter((file) => /^\d.*\.md$/.test(file))
    .toSorted();
  const items = files.map((file) => ({ text: titleOf(file), link: addressOf(`decisions/${file}`) }));
  return { text: "Decisions", collapsed: true, items: [{ text: "All decisions", link: "/decisions/" }, ...items] };
}

function api() {
  const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const names = Object.entries(exports)
    .filter(([, target]) => typeof target === "object")
    .map(([path]) => path.replace(/^\./, "holdfast"));
  const items = names.map((name) => ({ text: name, link: `/api/${name}` }));
  return { text: "API reference", collapsed: true, items: [{ text: "All subpaths", link: "/api/" }, ...items] };
}

/** Words of any language: one in Chinese is a character, and a code such as ERR_LOCK_TIMEOUT is found whole and by its parts. */
function tokenize(text) {
  const words = text.match(/\p{Script=Han}|[^\P{L}\p{Script=Han}][\p{L}\p{N}_]*|\p{N}+/gu) ?? [];
  return words
    .flatMap((word) => (word.includes("_") ? [word, ...word.split("_")] : [word]))
    .filter((word) => word !== "");
}

/** Pages that explain come before those that list: an error's own page first, the API reference last. */
function boostDocument(address) {
  if (address.includes("/api/")) return 0.3;
  return address.includes("/errors/") ? 2 : 1;
}

/** A padlock, in the colour of the theme. */
const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path d="M10 17v-7a6 6 0 0 1 12 0v7" fill="none" stroke="#0d7a6a" stroke-width="4"/><rect x="5" y="14" width="22" height="15" rx="3" fill="#0d7a6a"/></svg>';
const ICON_ADDRESS = `data:image/svg+xml,${encodeURIComponent(ICON)}`;

const HERO = {
  name: "Holdfast",
  text: "A distributed lock that warns its holder in time",
  tagline:
    "One process at a time does the work, and is warned before another one can take over. On files, Redis, Postgres, ZooKeeper or etcd, with one small API for Node.",
  image: { src: ICON_ADDRESS, alt: "" },
  actions: [
    { theme: "brand", text: "Start", link: "/start" },
    { theme: "alt", text: "Choose a backend", link: "/choose" },
    { theme: "alt", text: "Recipes", link: "/recipes/" },
  ],
};

const english = [...toGroups(ENGLISH), api(), decisions()];

export default defineConfig({
  title: "Holdfast",
  description: "A distributed lock for Node that warns its holder before another process can take over.",
  lang: "en",
  head: [["link", { rel: "icon", href: ICON_ADDRESS }]],
  base: "/holdfast/",
  srcDir: "../docs",
  outDir: "dist",
  cacheDir: "node_modules/.cache/vitepress",
  cleanUrls: true,
  rewrites: {
    "README.md": "index.md",
    "zh/README.md": "zh/index.md",
    "decisions/README.md": "decisions/index.md",
    "recipes/README.md": "recipes/index.md",
    "generated/api/:path(.*)": "api/:path",
  },
  markdown: {
    anchor: { slugify: slugOf },
    config: (md) => outsideLinks(md, REPOSITORY),
  },
  // The index of the search is one file, which is loaded when the search is opened.
  vite: { server: { fs: { allow: [ROOT] } }, build: { chunkSizeWarningLimit: 4000 } },
  transformPageData(pageData) {
    const { relativePath, frontmatter } = pageData;
    if (relativePath === "index.md") Object.assign(frontmatter, { layout: "home", hero: HERO });
    if (relativePath.startsWith("api/")) Object.assign(frontmatter, { editLink: false, outline: 3 });
  },
  locales: {
    root: { label: "English", lang: "en" },
    zh: {
      label: "简体中文",
      lang: "zh-CN",
      link: existsSync(join(DOCS, "zh/README.md")) ? "/zh/" : "/zh/story",
      themeConfig: {
        nav: [{ text: "English", link: "/" }],
        sidebar: { "/zh/": toGroups(CHINESE) },
        outline: { level: [2, 3], label: "本页目录" },
        docFooter: { prev: "上一页", next: "下一页" },
        darkModeSwitchLabel: "外观",
        lightModeSwitchTitle: "切换到浅色",
        darkModeSwitchTitle: "切换到深色",
        sidebarMenuLabel: "目录",
        returnToTopLabel: "回到顶部",
        langMenuLabel: "语言",
        editLink: { pattern: `${REPOSITORY}/edit/main/docs/:path`, text: "编辑此页" },
      },
    },
  },
  themeConfig: {
    // Few pages are in both languages: a change of the language leads to the first page of the other one.
    i18nRouting: false,
    nav: [
      { text: "Start", link: "/start" },
      { text: "Choose", link: "/choose" },
      { text: "Recipes", link: "/recipes/", activeMatch: "^/recipes/" },
      { text: "API", link: "/api/", activeMatch: "^/api/" },
      { text: "Troubleshooting", link: "/troubleshooting", activeMatch: "^/(?:troubleshooting|errors/)" },
    ],
    sidebar: { "/": english },
    outline: { level: [2, 3] },
    search: {
      provider: "local",
      options: {
        miniSearch: { options: { tokenize }, searchOptions: { boostDocument } },
        locales: {
          zh: {
            translations: {
              button: { buttonText: "搜索", buttonAriaLabel: "搜索" },
              modal: {
                displayDetails: "显示详细内容",
                resetButtonTitle: "清除",
                backButtonTitle: "关闭搜索",
                noResultsText: "没有结果",
                footer: { selectText: "选择", navigateText: "切换", closeText: "关闭" },
              },
            },
          },
        },
      },
    },
    socialLinks: [{ icon: "github", link: REPOSITORY }],
    editLink: { pattern: `${REPOSITORY}/edit/main/docs/:path`, text: "Edit this page" },
    footer: { message: "MIT licence" },
  },
});
