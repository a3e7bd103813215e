// A clock that jumps: a day ahead at the first SIGUSR2, two days back at the next, and so on.
const RealDate = Date;
const DAY_MS = 86_400_000;
let offset = 0;

global.Date = class extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(RealDate.now() + offset);
    else super(...args);
  }
  static now() {
    return RealDate.now() + offset;
  }
};
process.on('SIGUSR2', () => {
  offset = offset > 0 ? -DAY_MS : DAY_MS;
});
