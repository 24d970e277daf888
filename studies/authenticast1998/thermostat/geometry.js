// Where things are on a dial: levels from the lower left round to the lower right, in the dial's own points.

export const VIEW = { left: 0, top: 20, width: 260, height: 199 };
export const CENTRE = [130, 122], RADIUS = 88, FROM = 135, SWEEP = 270;

export const angle = (level) => (FROM + SWEEP * level) * Math.PI / 180;
export const point = (level, radius) => [CENTRE[0] + radius * Math.cos(angle(level)),
                                         CENTRE[1] + radius * Math.sin(angle(level))];
