/**
 * The beginning, asked for before the page's own script has come: the browser loads it meanwhile. On a server this is
 * data.js; a saved copy has its data in that place, and asks nobody.
 */
import { type Beginning, begin } from "./requests";

(globalThis as { stowplanBegun?: Beginning }).stowplanBegun = begin();
