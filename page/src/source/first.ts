/**
 * Starts the first requests while the browser still loads the page's script. A server serves this as data.js; in a saved
 * copy data.js has the data instead.
 */
import { type Beginning, begin } from "./requests";

(globalThis as { stowplanBegun?: Beginning }).stowplanBegun = begin();
