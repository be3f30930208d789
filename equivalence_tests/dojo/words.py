"""What the dojo says besides its verdicts, in both languages."""

from __future__ import annotations

from equivalence_tests.findings import LANGUAGES

KINDS: dict[str, tuple[str, str]] = {
    "backward": ("write the backward", "paso hacia atrás"),
    "forward": ("write the function", "función"),
    "bug": ("find the bug", "busca el error"),
    "simplify": ("make it shorter", "hazlo más corto"),
    "predict": ("predict", "predice"),
    "faster": ("make it faster", "hazlo más rápido"),
}
HINTS: tuple[tuple[str, str], ...] = (
    ("a nudge", "un empujoncito"),
    ("the formula", "la fórmula"),
    ("the code's shape", "la forma del código"),
    ("the solution", "la solución"),
)
WORDS: dict[str, tuple[str, str]] = {
    "started": (
        "{count} katas are in {folder}/. Open {first}, read its first lines, write your answer; then `gemelos dojo check`.",
        "Hay {count} katas en {folder}/. Abre {first}, lee sus primeras líneas y escribe tu respuesta; luego, "
        "`gemelos dojo check`.",
    ),
    "started_again": (
        "{folder}/: files added: {new}; left as they are: {kept}.",
        "{folder}/: archivos añadidos: {new}; quedan como están: {kept}.",
    ),
    "on_the_way": (
        "`gemelos dojo watch` checks at every save, `gemelos dojo hint` helps in four steps, and `gemelos dojo list` shows "
        "them all.",
        "`gemelos dojo watch` comprueba cada vez que guardas, `gemelos dojo hint` ayuda en cuatro pasos y "
        "`gemelos dojo list` los muestra todos.",
    ),
    "no_folder": (
        "there is no folder of katas here: `gemelos dojo start` makes one, --folder names another",
        "aquí no hay ninguna carpeta de katas: `gemelos dojo start` crea una, --folder indica otra",
    ),
    "no_such_folder": (
        "{folder} is no folder of katas: `gemelos dojo start {folder}` makes one of it",
        "{folder} no es una carpeta de katas: `gemelos dojo start {folder}` la convierte en una",
    ),
    "not_a_folder": ("{folder} is a file, expected a folder", "{folder} es un archivo; se esperaba una carpeta"),
    "no_kata": (
        "there is no kata {word}, did you mean {near}?",
        "no hay ningún kata {word}, ¿querías decir {near}?",
    ),
    "no_number": ("there is no kata {word}, they are 1 to {most}", "no hay ningún kata {word}; van del 1 al {most}"),
    "many_katas": ("{word} may be {names}", "{word} puede ser {names}"),
    "put_aside": (
        "{error}\nIt is kept as {aside}, and progress starts anew.",
        "{error}\nSe guarda como {aside} y el progreso empieza de nuevo.",
    ),
    "right": ("right", "bien"),
    "not yet": ("not yet", "todavía no"),
    "where": ("where", "dónde"),
    "formula": ("the line it belongs to", "la línea a la que corresponde"),
    "smallest": ("The smallest case in which it is wrong:", "El caso más pequeño en que falla:"),
    "yours": ("yours", "lo tuyo"),
    "correct": ("right", "lo correcto"),
    "printed": (
        "your code prints ({bytes} bytes in all its calls; this is the last):",
        "tu código imprime ({bytes} bytes en todas las llamadas; esta es la última):",
    ),
    "and more": ("...", "..."),
    "picture": (
        "The Jacobian, wrong entries in red: {path}",
        "El jacobiano, con las entradas incorrectas en rojo: {path}",
    ),
    "no_picture": (
        "There is no picture for this kata.",
        "Para este kata no hay imagen.",
    ),
    "next_hint": (
        "Next: `gemelos dojo hint {number}`; the lesson is {lesson}.",
        "Para seguir: `gemelos dojo hint {number}`; la lección es {lesson}.",
    ),
    "next_kata": ("Next: {file}, {kind}: {title}", "Siguiente: {file}, {kind}: {title}"),
    "all_done": (
        "That was the last one: you have written every backward of a GPT.",
        "Era el último: has escrito todos los pasos hacia atrás de un GPT.",
    ),
    "hint": ("hint {step} of 4, {what}", "pista {step} de 4, {what}"),
    "more_hints": ("`gemelos dojo hint {number}` shows one more.", "`gemelos dojo hint {number}` muestra una más."),
    "reset": (
        "{file} is as it was at the start; your answer is kept as {backup}.",
        "{file} está como al principio; tu respuesta queda en {backup}.",
    ),
    "restored": ("{file} is as it was at the start.", "{file} está como al principio."),
    "watching": ("Watching {file}; Ctrl-C ends it.", "Vigilo {file}; Ctrl-C lo termina."),
    "ended": ("Ended. Your progress is kept.", "Terminado. Tu progreso está guardado."),
    "stopped": ("stopped", "interrumpido"),
    "kata": ("kata", "kata"),
    "state": ("state", "estado"),
    "attempts": ("attempts", "intentos"),
    "hints": ("hints", "pistas"),
    "task": ("task", "tarea"),
    "passed": ("passed", "superado"),
    "open": ("open", "pendiente"),
    "tried": ("tried", "intentado"),
    "progress": ("{passed} of {count} katas passed", "{passed} de {count} katas superados"),
    "training": (
        "Your own backward now trains a GPT of {parameters} parameters on Spanish tales.",
        "Ahora tu propio paso hacia atrás entrena un GPT de {parameters} parámetros con cuentos.",
    ),
    "trained": (
        "Loss {first:.2f} at the start, {last:.2f} after {steps} steps. It writes:",
        "Pérdida: {first:.2f} al empezar, {last:.2f} tras {steps} pasos. Escribe:",
    ),
    "lessons": ("{count} lessons are in {folder}.", "Hay {count} lecciones en {folder}."),
    "handout": ("The handout is in {path}.", "La hoja está en {path}."),
    "written": ("written: {path}", "escrito: {path}"),
    # The teacher's report.
    "report": ("Dojo: report", "Dojo: informe"),
    "class": ("{learners} learners, {katas} katas, {how}", "{learners} estudiantes, {katas} katas, {how}"),
    "learner": ("learner", "estudiante"),
    "last": ("last finding", "último hallazgo"),
    "share": ("passed by", "superado por"),
    "no_progress": ("no katas here", "aquí no hay katas"),
    "rechecked": ("judged again", "juzgado de nuevo"),
    "as_recorded": ("as recorded", "según lo guardado"),
    "legend": (
        "● passed, ◐ tried, ○ open; the small number counts attempts, each ? a hint.",
        "● superado, ◐ intentado, ○ pendiente; el número pequeño cuenta los intentos y cada ? es una pista.",
    ),
}


def word(key: str, language: str, **numbers: object) -> str:
    return WORDS[key][LANGUAGES.index(language)].format(**numbers)
