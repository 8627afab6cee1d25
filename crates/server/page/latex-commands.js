// The commands of LaTeX that stand for one sign, and the alphabets: tables only, read by latex.js.

/** Rows of `command sign`, as a map. */
const table = (rows) => new Map(rows.trim().split(/\s+/).map((row) => row.split('=')));

/** Letters and signs that are written like letters. */
export const LETTERS = table(`
  alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι kappa=κ varkappa=ϰ lambda=λ
  mu=μ nu=ν xi=ξ omicron=ο pi=π varpi=ϖ rho=ρ varrho=ϱ sigma=σ varsigma=ς tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ psi=ψ omega=ω
  imath=ı jmath=ȷ ell=ℓ
`);

/** The same, upright. */
export const UPRIGHT = table(`
  Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω
  infty=∞ partial=∂ nabla=∇ hbar=ℏ Re=ℜ Im=ℑ wp=℘ aleph=ℵ beth=ℶ emptyset=∅ varnothing=∅ angle=∠ triangle=△ square=□ Box=□
  blacksquare=■ Diamond=◇ bigstar=★ top=⊤ bot=⊥ degree=° dots=… ldots=… dotsc=… cdots=⋯ dotsb=⋯ vdots=⋮ ddots=⋱ prime=′
  checkmark=✓ dagger=† ddagger=‡ S=§ P=¶ pounds=£ euro=€ copyright=© clubsuit=♣ diamondsuit=♢ heartsuit=♡ spadesuit=♠
  $=$ %=% #=# &=& _=_
`);

/** Operators, relations and arrows. */
export const OPERATORS = table(`
  times=× div=÷ cdot=⋅ ast=∗ star=⋆ circ=∘ bullet=∙ pm=± mp=∓ oplus=⊕ ominus=⊖ otimes=⊗ oslash=⊘ odot=⊙ wedge=∧ land=∧ vee=∨
  lor=∨ cap=∩ cup=∪ uplus=⊎ sqcap=⊓ sqcup=⊔ setminus=∖ smallsetminus=∖ wr=≀ amalg=⨿ lnot=¬ neg=¬ forall=∀ exists=∃ nexists=∄
  therefore=∴ because=∵ bigtriangleup=△ bigtriangledown=▽ triangleleft=◁ triangleright=▷ ltimes=⋉ rtimes=⋊ colon=: backslash=\\
  leq=≤ le=≤ leqslant=⩽ geq=≥ ge=≥ geqslant=⩾ neq=≠ ne=≠ lt=< gt=> ll=≪ gg=≫ approx=≈ sim=∼ simeq=≃ cong=≅ equiv=≡ doteq=≐
  propto=∝ asymp=≍ prec=≺ succ=≻ preceq=⪯ succeq=⪰ lesssim=≲ gtrsim=≳ approxeq=≊ triangleq=≜ coloneqq=≔ in=∈ notin=∉ ni=∋
  subset=⊂ supset=⊃ subseteq=⊆ supseteq=⊇ subsetneq=⊊ supsetneq=⊋ nsubseteq=⊈ sqsubseteq=⊑ sqsupseteq=⊒ perp=⊥ parallel=∥
  nparallel=∦ mid=∣ nmid=∤ vdash=⊢ dashv=⊣ models=⊨ vDash=⊨ bowtie=⋈ smile=⌣ frown=⌢ trianglelefteq=⊴ trianglerighteq=⊵
  to=→ rightarrow=→ longrightarrow=⟶ gets=← leftarrow=← longleftarrow=⟵ leftrightarrow=↔ longleftrightarrow=⟷ Rightarrow=⇒
  Longrightarrow=⟹ implies=⟹ Leftarrow=⇐ Longleftarrow=⟸ impliedby=⟸ Leftrightarrow=⇔ Longleftrightarrow=⟺ iff=⟺ mapsto=↦
  longmapsto=⟼ uparrow=↑ downarrow=↓ updownarrow=↕ Uparrow=⇑ Downarrow=⇓ nearrow=↗ searrow=↘ swarrow=↙ nwarrow=↖ hookrightarrow=↪
  hookleftarrow=↩ rightharpoonup=⇀ leftharpoonup=↼ rightleftharpoons=⇌ rightleftarrows=⇄ leadsto=⇝ rightsquigarrow=⇝
  twoheadrightarrow=↠ upharpoonright=↾ nrightarrow=↛ nRightarrow=⇏
`);

/** Large operators. Limits stand below and above them, but beside integrals. */
export const LARGE = table(`
  sum=∑ prod=∏ coprod=∐ bigcup=⋃ bigcap=⋂ bigvee=⋁ bigwedge=⋀ bigoplus=⨁ bigotimes=⨂ bigodot=⨀ bigsqcup=⨆ biguplus=⨄
`);
export const INTEGRALS = table('int=∫ iint=∬ iiint=∭ oint=∮ oiint=∯');

/** Names that are written upright; those of `LIMITS` take what belongs to them below. */
export const FUNCTIONS = new Set(
  'sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp arg deg dim hom ker'.split(' '),
);
export const LIMITS = new Set('lim max min sup inf det gcd Pr argmax argmin limsup liminf'.split(' '));

/** Signs that grow between `\left` and `\right`. */
export const DELIMITERS = table(`
  (=( )=) [=[ ]=] |=| /=/ <=⟨ >=⟩ .= {={ }=} ‖=‖ lbrace={ rbrace=} lbrack=[ rbrack=] langle=⟨ rangle=⟩ lfloor=⌊ rfloor=⌋
  lceil=⌈ rceil=⌉ vert=| lvert=| rvert=| Vert=‖ lVert=‖ rVert=‖ lgroup=⟮ rgroup=⟯ uparrow=↑ downarrow=↓ updownarrow=↕
  Uparrow=⇑ Downarrow=⇓ backslash=\\ ulcorner=⌜ urcorner=⌝
`);

/** Signs above a letter. */
export const ACCENTS = table('hat=^ check=ˇ breve=˘ acute=´ grave=` tilde=~ bar=¯ vec=→ dot=˙ ddot=¨ dddot=⃛ mathring=˚');

/** Signs above or below all of an expression. */
export const OVER = table('widehat=^ widetilde=~ overrightarrow=→ overleftarrow=← overleftrightarrow=↔ overbrace=⏞');
export const UNDER = table('underbrace=⏟ underrightarrow=→ underleftarrow=←');

/** Widths, in parts of the size of letters. */
export const SPACES = new Map([
  [',', 0.167], ['thinspace', 0.167], [':', 0.222], ['>', 0.222], ['medspace', 0.222], [';', 0.278], ['thickspace', 0.278],
  ['!', 0], ['negthinspace', 0], [' ', 0.25], ['space', 0.25], ['enspace', 0.5], ['quad', 1], ['qquad', 2],
]);

// Where an alphabet of Unicode begins: capitals, small letters, digits. Signs that are older have their places elsewhere.
const PLACES = {
  bold: [0x1d400, 0x1d41a, 0x1d7ce],
  'bold-italic': [0x1d468, 0x1d482],
  script: [0x1d49c, 0x1d4b6],
  fraktur: [0x1d504, 0x1d51e],
  double: [0x1d538, 0x1d552, 0x1d7d8],
  sans: [0x1d5a0, 0x1d5ba, 0x1d7e2],
  mono: [0x1d670, 0x1d68a, 0x1d7f6],
};
const ELSEWHERE = {
  script: table('B=ℬ E=ℰ F=ℱ H=ℋ I=ℐ L=ℒ M=ℳ R=ℛ e=ℯ g=ℊ o=ℴ'),
  fraktur: table('C=ℭ H=ℌ I=ℑ R=ℜ Z=ℨ'),
  double: table('C=ℂ H=ℍ N=ℕ P=ℙ Q=ℚ R=ℝ Z=ℤ'),
};
const GREEK = { bold: [0x1d6a8, 0x1d6c2], 'bold-italic': [0x1d71c, 0x1d736] };

/** A letter or digit of an alphabet, or itself where the alphabet has none. */
export function inAlphabet(alphabet, letter) {
  const elsewhere = ELSEWHERE[alphabet]?.get(letter);
  if (elsewhere) return elsewhere;
  const [capitals, small, digits] = PLACES[alphabet] ?? [];
  const [greekCapitals, greekSmall] = GREEK[alphabet] ?? [];
  for (const [first, last, place] of [['A', 'Z', capitals], ['a', 'z', small], ['0', '9', digits], ['Α', 'Ω', greekCapitals], ['α', 'ω', greekSmall]]) {
    if (place && letter >= first && letter <= last) return String.fromCodePoint(place + letter.codePointAt(0) - first.codePointAt(0));
  }
  return letter;
}

/** What chooses an alphabet for the letters of its argument. */
export const ALPHABETS = table(`
  mathbf=bold textbf=bold boldsymbol=bold-italic bm=bold-italic mathcal=script mathscr=script mathfrak=fraktur mathbb=double Bbb=double
  mathsf=sans mathtt=mono mathrm=upright mathup=upright mathnormal=italic mathit=italic
`);

/** The same for the rest of a group. */
export const SWITCHES = table('rm=upright bf=bold it=italic cal=script');
