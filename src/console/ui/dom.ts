/** Elements, made of data. Text is only ever set as text: no name, holder or meta can become markup. */

type Child = Node | string | number | null | undefined | false;
type Attributes = Readonly<Record<string, string | number | boolean | ((event: never) => void) | null | undefined>>;

const SVG = "http://www.w3.org/2000/svg";

export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  return dressed(document.createElement(tag), attributes, children);
}

export function svg(tag: string, attributes: Attributes = {}, ...children: readonly Child[]): SVGElement {
  return dressed(document.createElementNS(SVG, tag) as SVGElement, attributes, children);
}

function dressed<E extends Element>(element: E, attributes: Attributes, children: readonly Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value as unknown as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "object" ? child : document.createTextNode(String(child)));
  }
  return element;
}

export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Puts new children in the place of the old ones, and leaves the keyboard where it was. */
export function replace(parent: Element, ...children: readonly Child[]): void {
  const focused = document.activeElement;
  const key = focused !== null && parent.contains(focused) ? focused.getAttribute("data-key") : null;
  parent.replaceChildren(
    ...children
      .filter((child) => child !== null && child !== undefined && child !== false)
      .map((child) => (typeof child === "object" ? (child as Node) : document.createTextNode(String(child)))),
  );
  if (key === null) return;
  for (const one of parent.querySelectorAll<HTMLElement>("[data-key]"))
    if (one.getAttribute("data-key") === key) one.focus({ preventScroll: true });
}
