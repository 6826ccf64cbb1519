// Light and dark themes: colours of the charts; the page's own colours are in page.css. Kinds and fates differ in lightness and hue, and
// faults that waited are diamonds: nothing depends on distinguishing red from green. Groups of reasons have the hues of the profile's categories.

const LIGHT = {
  kinds: ["#8d95a1", "#2f77b4", "#dc9a2a", "#b8280f"],
  fates: ["#e6e9ee", "#9fb8ae", "#c06a9a", "#a8cbe8", "#2f77b4", "#dc9a2a"],
  ink: "#1c2430",
  soft: "#5b6675",
  line: "#dfe3e8",
  band: "#f4f6f8",
  paper: "#ffffff",
  accent: "#0f766e",
  read: "#6d4bb8",
  reasons: ["#e0ac00", "#c0399f", "#c62f1d", "#f2918a", "#8f5b2e", "#3fa3d8", "#7048b8", "#6fbb4f", "#b9c0ca", "#5c6673"],
  dim: "#aeb6c1",
  flame: ["#cfe5e2", "#e3e6ea", "#f0e2d2"],
  flameInk: "#1c2430",
};

const DARK = {
  kinds: ["#7b8492", "#5aa5e6", "#d9a84c", "#ff7457"],
  fates: ["#2a2f38", "#5f8375", "#c678a6", "#33567a", "#5aa5e6", "#d9a84c"],
  ink: "#e6e9ee",
  soft: "#9aa4b2",
  line: "#2f3540",
  band: "#1d2129",
  paper: "#16191f",
  accent: "#4fd1c0",
  read: "#a48bf0",
  reasons: ["#f0c53a", "#e26bc6", "#f0523c", "#f7a59e", "#b98350", "#62bdec", "#a284ec", "#8ed66c", "#5d6675", "#98a2b0"],
  dim: "#4d5563",
  flame: ["#23504b", "#343a45", "#4b3d2c"],
  flameInk: "#e6e9ee",
};

const CHOICES = ["auto", "light", "dark"];
const NAMES = { auto: "system", light: "light", dark: "dark" };

/** The current theme and its colours. */
export class Theme {
  constructor(changed) {
    this.choice = "auto";
    this.printing = false;
    this.system = matchMedia("(prefers-color-scheme: dark)");
    this.changed = changed;
    this.system.addEventListener("change", () => this.apply());
    // Paper is white: print in the light theme.
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
    this.apply();
  }

  print(printing) {
    this.printing = printing;
    this.apply();
  }

  get isDark() {
    if (this.printing) return false;
    return this.choice === "auto" ? this.system.matches : this.choice === "dark";
  }

  get colours() {
    return this.isDark ? DARK : LIGHT;
  }

  /** Switches to the next of system, light and dark. */
  next() {
    this.choice = CHOICES[(CHOICES.indexOf(this.choice) + 1) % CHOICES.length];
    this.apply();
  }

  /** Name of the choice, for the button. */
  get words() {
    return NAMES[this.choice];
  }

  apply() {
    document.documentElement.dataset.theme = this.isDark ? "dark" : "light";
    this.changed();
  }
}
