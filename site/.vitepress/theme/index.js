/** The default theme, with a few colours and widths of our own. */
import theme from "vitepress/theme";
import "./style.css";

export default theme;
