import clsx, { type ClassValue } from 'clsx'

/** Joins class names. */
export const classes = (...values: ClassValue[]) => clsx(values)
