/**
 * What a notification says, in the person's language: the kind in words, nothing of a project. The service worker shows
 * the words of the browser's first language that is here, else the English ones.
 */
import type { NotificationKind } from "../../../wire/mobile/Notifications.ts"

/** `other`: of a kind that a newer release sends to an older worker. */
export type WordsOf = Readonly<Record<NotificationKind | "other", readonly [title: string, body: string]>>

const en: WordsOf = {
  "task.blocked": ["A task is blocked", "An agent cannot go on with it."],
  "task.needs_decision": ["A task needs your decision", "An agent waits for your answer."],
  "task.completed": ["A task is done", "Open it to see what came of it."],
  "bridge.enrolled": ["A Bridge was enrolled", "It may now act for the project."],
  "bridge.revoked": ["A Bridge was revoked", "It may no longer act for the project."],
  "bridge.rotation_failed": ["A Bridge did not rotate its token", "The rotation ended without confirmation."],
  "security.device_added": ["Another device rings for you", "If it is not yours, end it on the page of phones."],
  "security.client_authorized": [
    "A client was allowed into the project",
    "If nobody knows it, ask the operator to end it."
  ],
  "device.test": ["This device rings", "You get the notifications of the project here."],
  other: ["Something has happened", "Open the console to see what."]
}

const de: WordsOf = {
  "task.blocked": ["Eine Aufgabe ist blockiert", "Ein Agent kommt damit nicht weiter."],
  "task.needs_decision": ["Eine Aufgabe braucht Ihre Entscheidung", "Ein Agent wartet auf Ihre Antwort."],
  "task.completed": ["Eine Aufgabe ist erledigt", "Öffnen Sie sie, um das Ergebnis zu sehen."],
  "bridge.enrolled": ["Eine Bridge wurde aufgenommen", "Sie darf jetzt für das Projekt handeln."],
  "bridge.revoked": ["Eine Bridge wurde gesperrt", "Sie darf nicht mehr für das Projekt handeln."],
  "bridge.rotation_failed": ["Eine Bridge hat ihr Token nicht erneuert", "Die Erneuerung endete ohne Bestätigung."],
  "security.device_added": [
    "Ein weiteres Gerät klingelt für Sie",
    "Ist es nicht Ihres, beenden Sie es auf der Seite „Phones“."
  ],
  "security.client_authorized": [
    "Ein Programm hat Zugang zum Projekt",
    "Kennt es niemand, lassen Sie den Zugang vom Betreiber beenden."
  ],
  "device.test": ["Dieses Gerät klingelt", "Hier kommen die Benachrichtigungen des Projekts an."],
  other: ["Etwas ist geschehen", "Öffnen Sie die Konsole, um es zu sehen."]
}

export const words: Readonly<Record<"en" | "de", WordsOf>> = { en, de }
