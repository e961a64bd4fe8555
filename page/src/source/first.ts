/** Starts the first requests while the browser still loads the page's script; a saved copy is without it. */
import { type Beginning, begin } from "./requests";

(globalThis as { stowplanBegun?: Beginning }).stowplanBegun = begin();
