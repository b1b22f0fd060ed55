import { render } from "preact";

import { App, startTheme } from "./app";
import { startRouting } from "./lib/route";
import "./style.css";

startTheme();
startRouting();
const root = document.getElementById("app");
if (root) render(<App />, root);
