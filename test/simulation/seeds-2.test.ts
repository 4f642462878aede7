import { seedsHold } from "./seeds.ts";

seedsHold(1001, 1400);
